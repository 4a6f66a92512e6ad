#include "services/client/supervisor/supervisor.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <iterator>
#include <nlohmann/json.hpp>

#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/rpc/server.h"

namespace tandem::client {

Supervisor::Supervisor(RunDir run_dir, std::vector<DaemonCommand> daemons, const Clock* clock)
    : run_dir_(std::move(run_dir)), clock_(clock) {
  for (DaemonCommand& command : daemons) {
    Daemon& daemon = daemons_.emplace_back();
    daemon.command = std::move(command);
  }
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signals_ = UniqueFd(signalfd(-1, &signals, SFD_CLOEXEC));
  TANDEM_CHECK(signals_.valid(), errno);
}

absl::Status Supervisor::Run() {
  TANDEM_RETURN_IF_ERROR(run_dir_.Make());
  TANDEM_RETURN_IF_ERROR(rpc::LockFile(run_dir_.SupervisorLock()));
  TANDEM_RETURN_IF_ERROR(WritePidFile(run_dir_.PidFile("supervisor"), getpid()));
  for (Daemon& daemon : daemons_) AdoptOrStart(daemon);
  WriteState();
  while (!Wait()) {
    for (Daemon& daemon : daemons_) {
      if (daemon.process.has_value() && daemon.process->Ended()) OnEnd(daemon);
      if (daemon.start_at.has_value() && *daemon.start_at <= clock_->Now()) Start(daemon);
    }
    WriteState();
  }
  StopAll();
  return absl::OkStatus();
}

void Supervisor::AdoptOrStart(Daemon& daemon) {
  daemon.process = DaemonProcess::Adopt(run_dir_.PidFile(daemon.command.name));
  if (daemon.process.has_value()) {
    daemon.policy.OnStart(clock_->Now());
    LOG_INFO("{} runs already, adopted pid={}", daemon.command.name, daemon.process->pid());
    return;
  }
  Start(daemon);
}

void Supervisor::Start(Daemon& daemon) {
  daemon.start_at.reset();
  daemon.policy.OnStart(clock_->Now());
  auto process = DaemonProcess::Spawn(daemon.command.argv, run_dir_.Log(daemon.command.name),
                                      run_dir_.PidFile(daemon.command.name));
  if (!process.ok()) {
    daemon.last_end = std::string(process.status().message());
    Decide(daemon);
    return;
  }
  daemon.process = *std::move(process);
  LOG_INFO("{} started pid={} log={}", daemon.command.name, daemon.process->pid(), run_dir_.Log(daemon.command.name));
}

void Supervisor::OnEnd(Daemon& daemon) {
  daemon.last_end = daemon.process->Reap();
  daemon.process.reset();
  Decide(daemon);
}

void Supervisor::Decide(Daemon& daemon) {
  const std::string& name = daemon.command.name;
  const std::optional<absl::Duration> delay = daemon.policy.OnDeath(clock_->Now());
  if (!delay.has_value()) {
    daemon.given_up = true;
    LOG_ERROR("{} died {} times in {} s ({}), given up; its log says why: {}", name, RestartPolicy::kMaxDeaths,
              absl::ToInt64Seconds(RestartPolicy::kWindow), daemon.last_end, run_dir_.Log(name));
    return;
  }
  ++daemon.restarts;
  daemon.start_at = clock_->Now() + *delay;
  LOG_WARN("{} died ({}), starts again in {} ms; log: {}", name, daemon.last_end, absl::ToInt64Milliseconds(*delay),
           run_dir_.Log(name));
}

bool Supervisor::Wait() {
  std::vector<pollfd> events = {{signals_.get(), POLLIN, 0}};
  absl::Duration timeout = absl::Hours(1);
  for (const Daemon& daemon : daemons_) {
    if (daemon.process.has_value()) events.push_back({daemon.process->pidfd(), POLLIN, 0});
    if (daemon.start_at.has_value()) timeout = std::min(timeout, *daemon.start_at - clock_->Now());
  }
  const int64_t timeout_ms =
      std::max<int64_t>(0, absl::ToInt64Milliseconds(absl::Ceil(timeout, absl::Milliseconds(1))));
  poll(events.data(), events.size(), static_cast<int>(timeout_ms));
  return (events[0].revents & POLLIN) != 0;
}

void Supervisor::WriteState() const {
  nlohmann::json daemons = nlohmann::json::array();
  for (const Daemon& daemon : daemons_) {
    const char* state = daemon.given_up ? "given up" : daemon.process.has_value() ? "running" : "restarting";
    daemons.push_back({{"name", daemon.command.name},
                       {"pid", daemon.process.has_value() ? daemon.process->pid() : 0},
                       {"state", state},
                       {"restarts", daemon.restarts},
                       {"last_end", daemon.last_end},
                       {"log", run_dir_.Log(daemon.command.name)}});
  }
  const nlohmann::json state = {{"pid", getpid()}, {"daemons", daemons}};
  const absl::Status written = WriteFileAtomically(run_dir_.SupervisorState(), state.dump(2) + "\n");
  if (!written.ok()) LOG_ERROR("{}", std::string(written.message()));
}

void Supervisor::StopAll() {
  std::vector<std::string> pid_files;
  pid_files.reserve(std::size(kDaemons));
  for (const char* name : kDaemons) pid_files.push_back(run_dir_.PidFile(name));
  for (const std::string& line : StopInOrder(pid_files, kStopGrace)) LOG_INFO("{}", line);
  unlink(run_dir_.SupervisorState().c_str());
  unlink(run_dir_.PidFile("supervisor").c_str());
}

}  // namespace tandem::client
