#pragma once
// Keeps the daemons of a run directory running where no service manager does: starts them, starts again what died
// (restart_policy.h), and writes what it knows to supervisor.json after every change.
//
// It is not a parent that its children need: it may die at any time and stops nothing by that; the next supervisor
// adopts the daemons that run. SIGTERM and SIGINT end the daemons in the order of kDaemons, then Run returns. One
// thread.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/unique_fd.h"
#include "services/client/supervisor/daemon_process.h"
#include "services/client/supervisor/restart_policy.h"
#include "services/client/supervisor/run_dir.h"

namespace tandem::client {

struct DaemonCommand {
  std::string name;
  std::vector<std::string> argv;
};

class Supervisor {
 public:
  // Blocks SIGTERM and SIGINT: make it before there are other threads.
  Supervisor(RunDir run_dir, std::vector<DaemonCommand> daemons, const Clock* clock);

  // Until SIGTERM or SIGINT. FAILED_PRECONDITION if another supervisor holds the run directory.
  absl::Status Run();

  // How long a daemon may take to stop before it is killed.
  static constexpr absl::Duration kStopGrace = absl::Seconds(20);

 private:
  struct Daemon {
    DaemonCommand command;
    RestartPolicy policy;
    std::optional<DaemonProcess> process;
    std::optional<absl::Duration> start_at;  // waiting for a restart
    int restarts = 0;
    bool given_up = false;
    std::string last_end;  // "exit code 2"
  };

  void AdoptOrStart(Daemon& daemon);
  void Start(Daemon& daemon);
  void OnEnd(Daemon& daemon);
  void Decide(Daemon& daemon);  // after a death or a failed start
  // Until a daemon ends, a restart is due, or a signal came; true: a signal.
  bool Wait();
  void WriteState() const;
  void StopAll();

  RunDir run_dir_;
  std::vector<Daemon> daemons_;
  const Clock* clock_;
  UniqueFd signals_;
};

}  // namespace tandem::client
