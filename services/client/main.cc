// tandem: the command line of Tandem. Reads the environment and the command line, runs one command, exits with its
// code.

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "services/client/commands.h"

namespace tandem::client {
namespace {

constexpr const char* kDescription =
    R"(Train a language model with reinforcement learning and talk to it, with one copy of its weights.

Examples:
  tandem up --model ./SmolLM2-135M-Instruct     start the daemons and serve a model
  tandem chat                                   talk to it
  tandem submit job.yaml --follow               train; Ctrl-C detaches, the job goes on
  tandem jobs                                   what was submitted
  tandem job show 3 -o json                     one job: state, totals, last metrics
  tandem generate "17+25=" --temperature 0      one completion
  tandem status                                 the pool, the turn, the model, the jobs
  tandem down                                   stop everything
)";

constexpr const char* kFooter = R"(
Exit codes:
  0    done; a followed job succeeded
  1    a job or a request failed
  2    wrong usage, an invalid job file, or a daemon that could not start
  3    a daemon does not answer
  4    the followed job was cancelled
  130  Ctrl-C: detached from a job that goes on, or aborted an answer

The daemons meet in the run directory: --run_dir, else $TANDEM_RUN_DIR, else $XDG_RUNTIME_DIR/tandem, else /tmp/tandem-UID.)";

std::string Executable() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "tandem" : path.string();
}

int Main(int argc, char** argv) {
  Cli cli;
  cli.executable = Executable();
  cli.run_dir = RunDir::Default(std::getenv("TANDEM_RUN_DIR"), std::getenv("XDG_RUNTIME_DIR"), geteuid()).path();
  CLI::App app(kDescription, "tandem");
  app.footer(kFooter);
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--run_dir", cli.run_dir, "Directory of the daemons' sockets and logs")->capture_default_str();
  AddUpCommands(app, cli);
  AddSubmitCommand(app, cli);
  AddJobCommands(app, cli);
  AddStatusCommand(app, cli);
  AddGenerateCommand(app, cli);
  AddChatCommand(app, cli);
  AddModelCommands(app, cli);
  AddExampleCommands(app, cli);
  app.add_subcommand("version", "Print the version")->callback([] {
    std::cout << "tandem " << TANDEM_VERSION << "\n";
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::RequiredError& error) {
    const std::vector<std::string> unknown = app.remaining();
    if (unknown.empty()) return app.exit(error) == 0 ? kOk : kUsage;
    std::cerr << "error: there is no command '" << unknown[0] << "'. See: tandem --help\n";
    return kUsage;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kUsage;
  }
  return cli.exit_code;
}

}  // namespace
}  // namespace tandem::client

int main(int argc, char** argv) {
  return tandem::client::Main(argc, argv);
}
