#pragma once
// One daemon's process, held by a pidfd: a signal or a wait never meets another process that got the same number.
//
// It is a child that was spawned, or one adopted from its pid file because an earlier supervisor had started it. The
// object's end does not end the process. One thread at a time.

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/unique_fd.h"

namespace tandem::client {

class DaemonProcess {
 public:
  // Starts argv[0] in a session of its own, standard output and error appended to `log`, input /dev/null, and writes
  // `pid_file` unless that is empty. A log of more than 64 MiB is first renamed to LOG.1.
  static absl::StatusOr<DaemonProcess> Spawn(const std::vector<std::string>& argv, const std::string& log,
                                             const std::string& pid_file);
  // The living process that `pid_file` names; nullopt if there is none.
  static std::optional<DaemonProcess> Adopt(const std::string& pid_file);

  pid_t pid() const { return pid_; }
  // Readable when the process has ended.
  int pidfd() const { return pidfd_.get(); }
  bool Ended() const { return WaitEnd(absl::ZeroDuration()); }
  // Whether it ended within `timeout`.
  bool WaitEnd(absl::Duration timeout) const;
  // After its end: "exit code 2", "signal 9", or "ended" for one that is not our child. Reaps it.
  std::string Reap();
  void Signal(int signal) const;

 private:
  DaemonProcess(pid_t pid, UniqueFd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}

  pid_t pid_;
  UniqueFd pidfd_;
};

// Writes the process id and the start time of `pid`.
absl::Status WritePidFile(const std::string& pid_file, pid_t pid);

// Ends the processes of the run directory in the order given: SIGTERM, then SIGKILL after `grace`. Returns one line for
// each that was ended.
std::vector<std::string> StopInOrder(const std::vector<std::string>& pid_files, absl::Duration grace);

}  // namespace tandem::client
