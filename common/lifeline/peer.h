#pragma once
// Who is at the other end of a lifeline, held by a pidfd: a handle that stays with the process, not with its number.
// Owned by the arbiter's record of the tenant. Thread-safe after construction.

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/unique_fd.h"

namespace tandem::lifeline {

// How the pidfd is taken. kAuto: SO_PEERPIDFD (Linux 6.5) where the kernel has it, else kPidfdOpen.
enum class PidfdSource { kAuto, kPeerPidfd, kPidfdOpen };

class Peer {
 public:
  // The peer of the connected socket. `start_time_ticks` is what the peer says of itself (StartTimeTicks): with
  // kPidfdOpen the number could have gone to another process before the pidfd was opened, so it is compared with the
  // process that the pidfd names. FAILED_PRECONDITION when they differ or the peer is in a PID namespace out of sight.
  static absl::StatusOr<Peer> Of(int socket, uint64_t start_time_ticks, PidfdSource source);

  int pid() const { return pid_; }
  int pidfd() const { return pidfd_.get(); }

  // Whether this process may end the peer; PERMISSION_DENIED with the remedy if not.
  absl::Status CheckMaySignal() const;
  // Sends SIGKILL; OK also when the peer has exited.
  absl::Status Kill() const;
  bool HasExited() const;

 private:
  Peer(int pid, UniqueFd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}

  int pid_ = 0;
  UniqueFd pidfd_;
};

// Start time of a process in clock ticks since boot (field 22 of /proc/PID/stat); pid 0 means this process.
absl::StatusOr<uint64_t> StartTimeTicks(int pid);

}  // namespace tandem::lifeline
