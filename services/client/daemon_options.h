#pragma once
// The options of `tandem up` and how they become the command lines of the three daemons.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "services/client/supervisor/supervisor.h"

namespace tandem::client {

struct DaemonOptions {
  std::string model;        // served from the start; empty: none
  std::string state_dir;    // of the trainer: its job store; empty: the trainer's default
  uint64_t pool_bytes = 0;  // 0: the arbiter's default
  uint64_t host_bytes = 0;  // 0: the arbiter's default
  uint64_t kv_bytes = 0;    // of inference; 0: its default
  int metrics_port = 0;     // arbiter; trainer + 1, inference + 2; 0: no metrics
};

// The first of the three metrics ports of `tandem up`.
inline constexpr int kDefaultMetricsPort = 9464;
// Whether 127.0.0.1:`port` can be listened on.
bool PortIsFree(int port);

// Registers the options at `up` and at `supervise`.
void AddDaemonOptions(CLI::App& command, DaemonOptions& options);

// The options as arguments again, for `tandem supervise`.
std::vector<std::string> ToArguments(const DaemonOptions& options);

// The daemons' command lines; binaries lie in `bin_dir`.
std::vector<DaemonCommand> MakeDaemonCommands(const std::string& bin_dir, const RunDir& run_dir,
                                              const DaemonOptions& options);

}  // namespace tandem::client
