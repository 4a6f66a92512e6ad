#pragma once
// The commands of `tandem`, each in a file of its own. Add* registers a command and its options at the app; parsing the
// command line then runs it and leaves the exit code in Cli. Standard output carries data, standard error messages.

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>

#include "services/client/exit_code.h"
#include "services/client/supervisor/run_dir.h"

namespace tandem::client {

// What all commands share. Outlives the app.
struct Cli {
  std::string run_dir;     // --run_dir, as given
  std::string executable;  // path of this binary; the daemons' lie beside it
  int exit_code = kOk;

  RunDir Dir() const { return RunDir(std::filesystem::absolute(run_dir).lexically_normal().string()); }
};

void AddUpCommands(CLI::App& app, Cli& cli);       // up, down, supervise
void AddSubmitCommand(CLI::App& app, Cli& cli);    // submit
void AddJobCommands(CLI::App& app, Cli& cli);      // jobs, job show|follow|cancel
void AddStatusCommand(CLI::App& app, Cli& cli);    // status
void AddGenerateCommand(CLI::App& app, Cli& cli);  // generate
void AddChatCommand(CLI::App& app, Cli& cli);      // chat
void AddModelCommands(CLI::App& app, Cli& cli);    // load, model init
void AddExampleCommands(CLI::App& app, Cli& cli);  // example sums

}  // namespace tandem::client
