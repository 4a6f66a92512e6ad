// tandem up: starts the daemons under a detached supervisor and waits until they serve. tandem down: stops them.
// tandem supervise: the supervisor itself, in the foreground.

#include <fcntl.h>
#include <sys/file.h>

#include <csignal>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/rpc/channel.h"
#include "services/client/commands.h"
#include "services/client/daemon_call.h"
#include "services/client/daemon_options.h"

namespace tandem::client {
namespace {

struct UpOptions {
  DaemonOptions daemons;
  int timeout_s = 120;
};

std::string LastLines(const std::string& path, size_t count) {
  const auto text = ReadFile(path);
  if (!text.ok()) return "";
  std::vector<std::string> lines = absl::StrSplit(*text, '\n', absl::SkipEmpty());
  if (lines.size() > count) lines.erase(lines.begin(), lines.end() - static_cast<ptrdiff_t>(count));
  return absl::StrCat("  ", absl::StrJoin(lines, "\n  "), "\n");
}

bool SupervisorRuns(const RunDir& run_dir) {
  const UniqueFd fd(open(run_dir.SupervisorLock().c_str(), O_RDWR | O_CLOEXEC));
  return fd.valid() && flock(fd.get(), LOCK_EX | LOCK_NB) != 0;
}

// The daemons that the supervisor does not start any more, and how each ended last.
std::vector<std::pair<std::string, std::string>> GivenUp(const RunDir& run_dir) {
  std::vector<std::pair<std::string, std::string>> daemons;
  const auto text = ReadFile(run_dir.SupervisorState(), 1 << 20);
  if (!text.ok()) return daemons;
  const auto state = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!state.is_object() || !state.contains("daemons")) return daemons;
  for (const auto& daemon : state["daemons"]) {
    if (daemon.value("state", "") == "given up")
      daemons.emplace_back(daemon.value("name", ""), daemon.value("last_end", ""));
  }
  return daemons;
}

// Waits until every daemon serves. Prints why if one does not.
bool WaitForDaemons(const RunDir& run_dir, const std::optional<DaemonProcess>& supervisor, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  std::vector<std::string> waiting = {"arbiter", "inference", "trainer"};
  while (!waiting.empty()) {
    const std::string daemon = waiting.front();
    if (rpc::WaitUntilServing(rpc::DaemonTarget(run_dir.path(), daemon), absl::Milliseconds(200)).ok()) {
      std::cerr << daemon << " serves at " << run_dir.Socket(daemon) << "\n";
      waiting.erase(waiting.begin());
      continue;
    }
    const auto given_up = GivenUp(run_dir);
    for (const auto& [name, last_end] : given_up) {
      std::cerr << "error: tandem-" << name << " died again and again (" << last_end << "). The end of its log, "
                << run_dir.Log(name) << ":\n"
                << LastLines(run_dir.Log(name), 5);
    }
    if (!given_up.empty()) return false;
    if (supervisor.has_value() && supervisor->Ended() && !SupervisorRuns(run_dir)) {
      std::cerr << "error: the supervisor ended. The end of its log, " << run_dir.Log("supervisor") << ":\n"
                << LastLines(run_dir.Log("supervisor"), 5);
      return false;
    }
    if (absl::Now() > deadline) {
      std::cerr << "error: " << daemon << " does not serve after " << absl::FormatDuration(timeout)
                << ". The end of its log, " << run_dir.Log(daemon) << ":\n"
                << LastLines(run_dir.Log(daemon), 5) << "Give it more time with --timeout_s.\n";
      return false;
    }
  }
  return true;
}

// Inference serves before it has loaded its model: waits until that is there too.
bool WaitForModel(const RunDir& run_dir, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  const auto stub = InferenceStub(run_dir);
  do {
    grpc::ClientContext context;
    SetTimeout(context, absl::Seconds(2));
    v1::GetInferenceStateResponse state;
    if (stub->GetInferenceState(&context, {}, &state).ok() && !state.model().empty()) {
      std::cerr << "model " << state.model() << " is served\n";
      return true;
    }
    absl::SleepFor(absl::Milliseconds(50));
  } while (absl::Now() < deadline && GivenUp(run_dir).empty());
  std::cerr << "error: the model is not served. The end of inference's log, " << run_dir.Log("inference") << ":\n"
            << LastLines(run_dir.Log("inference"), 5);
  return false;
}

// The supervisor stops the daemons and ends; what it leaves, or what runs without one, is stopped here.
bool StopEverything(const RunDir& run_dir) {
  std::vector<std::string> running;
  std::vector<std::string> pid_files;
  for (const char* name : kDaemons) {
    pid_files.push_back(run_dir.PidFile(name));
    if (DaemonProcess::Adopt(pid_files.back()).has_value()) running.emplace_back(name);
  }
  std::optional<DaemonProcess> supervisor = DaemonProcess::Adopt(run_dir.PidFile("supervisor"));
  if (supervisor.has_value()) {
    supervisor->Signal(SIGTERM);
    if (!supervisor->WaitEnd(3 * Supervisor::kStopGrace + absl::Seconds(40))) {
      std::cerr << "error: the supervisor (pid " << supervisor->pid()
                << ") does not end; its log: " << run_dir.Log("supervisor") << "\n";
      return false;
    }
    supervisor->Reap();
  }
  StopInOrder(pid_files, Supervisor::kStopGrace);
  if (running.empty() && !supervisor.has_value()) {
    std::cerr << "nothing runs in " << run_dir.path() << "\n";
  } else {
    if (supervisor.has_value()) running.emplace_back("supervisor");
    std::cerr << "stopped: " << absl::StrJoin(running, ", ") << "\n";
  }
  return true;
}

// Metrics are worth having, not worth a failed start: a default port that is taken turns them off.
void CheckDefaultMetricsPort(DaemonOptions& options, bool given) {
  if (given || options.metrics_port == 0) return;
  for (int port = options.metrics_port; port < options.metrics_port + 3; ++port) {
    if (PortIsFree(port)) continue;
    std::cerr << "note: port " << port << " is taken, no metrics; choose another with --metrics_port\n";
    options.metrics_port = 0;
    return;
  }
}

int Up(const Cli& cli, UpOptions options, bool metrics_port_given) {
  const RunDir run_dir = cli.Dir();
  if (const absl::Status status = run_dir.Make(); !status.ok()) {
    std::cerr << "error: " << status.message() << "\n";
    return kUsage;
  }
  if (!options.daemons.model.empty()) options.daemons.model = std::filesystem::absolute(options.daemons.model).string();
  if (!options.daemons.state_dir.empty()) {
    options.daemons.state_dir = std::filesystem::absolute(options.daemons.state_dir).string();
  }
  std::optional<DaemonProcess> supervisor;
  if (SupervisorRuns(run_dir)) {
    std::cerr << "already up in " << run_dir.path() << ", with the options of the first tandem up\n";
  } else {
    CheckDefaultMetricsPort(options.daemons, metrics_port_given);
    std::vector<std::string> argv = {cli.executable, "supervise", absl::StrCat("--run_dir=", run_dir.path())};
    for (std::string& argument : ToArguments(options.daemons)) argv.push_back(std::move(argument));
    auto started = DaemonProcess::Spawn(argv, run_dir.Log("supervisor"), "");
    if (!started.ok()) {
      std::cerr << "error: " << started.status().message() << "\n";
      return kUsage;
    }
    supervisor = *std::move(started);
  }
  const absl::Duration timeout = absl::Seconds(options.timeout_s);
  const bool wait_for_model = supervisor.has_value() && !options.daemons.model.empty();
  if (WaitForDaemons(run_dir, supervisor, timeout) && (!wait_for_model || WaitForModel(run_dir, timeout))) {
    std::cerr << "up. Look around: tandem status   Stop: tandem down   Logs: " << run_dir.path() << "/log\n";
    return kOk;
  }
  if (supervisor.has_value()) StopEverything(run_dir);
  return kUsage;
}

int Supervise(const Cli& cli, const DaemonOptions& options) {
  const std::string bin_dir = std::filesystem::path(cli.executable).parent_path().string();
  const SystemClock clock;
  InitLog("supervisor");
  Supervisor supervisor(cli.Dir(), MakeDaemonCommands(bin_dir, cli.Dir(), options), &clock);
  if (const absl::Status status = supervisor.Run(); !status.ok()) {
    std::cerr << "error: " << status.message() << "\n";
    return kUsage;
  }
  return kOk;
}

}  // namespace

void AddUpCommands(CLI::App& app, Cli& cli) {
  auto options = std::make_shared<UpOptions>();
  options->daemons.metrics_port = kDefaultMetricsPort;
  CLI::App* up = app.add_subcommand("up", "Start the three daemons and wait until they serve");
  AddDaemonOptions(*up, options->daemons);
  up->add_option("--timeout_s", options->timeout_s, "Longest wait for the daemons")->capture_default_str();
  up->callback([&cli, options, up] { cli.exit_code = Up(cli, *options, up->count("--metrics_port") > 0); });

  app.add_subcommand("down", "Stop trainer, inference, arbiter and the supervisor, in this order")->callback([&cli] {
    cli.exit_code = StopEverything(cli.Dir()) ? kOk : kFailed;
  });

  CLI::App* supervise = app.add_subcommand("supervise", "Run the supervisor in the foreground (tandem up detaches it)");
  AddDaemonOptions(*supervise, options->daemons);
  supervise->callback([&cli, options] { cli.exit_code = Supervise(cli, options->daemons); });
}

}  // namespace tandem::client
