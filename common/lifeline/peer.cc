#include "common/lifeline/peer.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/file.h"
#include "common/base/status.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77  // Linux 6.5, newer than Debian 12's headers
#endif

namespace tandem::lifeline {
namespace {

int PidfdOpen(int pid) {
  return static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
}
int PidfdSendSignal(int pidfd, int signal) {
  return static_cast<int>(syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0));
}

absl::StatusOr<UniqueFd> PeerPidfd(int socket) {
  int pidfd = -1;
  socklen_t size = sizeof pidfd;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) != 0) {
    return ErrnoStatus(errno, "cannot take SO_PEERPIDFD of", "the lifeline");
  }
  return UniqueFd(pidfd);  // the kernel makes pidfds close-on-exec
}

}  // namespace

absl::StatusOr<uint64_t> StartTimeTicks(int pid) {
  const std::string path = pid == 0 ? "/proc/self/stat" : absl::StrCat("/proc/", pid, "/stat");
  TANDEM_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  const size_t name_end = text.rfind(')');  // the name may hold spaces and parentheses
  const std::vector<std::string> fields =
      absl::StrSplit(name_end == std::string::npos ? "" : text.substr(name_end), ' ');
  constexpr size_t kStartTime = 20;  // field 22, counted from the name
  uint64_t ticks = 0;
  if (fields.size() <= kStartTime || !absl::SimpleAtoi(fields[kStartTime], &ticks)) {
    return absl::UnavailableError(absl::StrCat(path, " has no start time"));
  }
  return ticks;
}

absl::StatusOr<Peer> Peer::Of(int socket, uint64_t start_time_ticks, PidfdSource source) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return ErrnoStatus(errno, "cannot take SO_PEERCRED of", "the lifeline");
  }
  if (credentials.pid == 0) {
    return absl::FailedPreconditionError(
        "the tenant's process is out of sight (another PID namespace); run it in the arbiter's PID namespace");
  }
  if (source != PidfdSource::kPidfdOpen) {
    absl::StatusOr<UniqueFd> pidfd = PeerPidfd(socket);
    if (pidfd.ok()) return Peer(credentials.pid, *std::move(pidfd));
    if (source == PidfdSource::kPeerPidfd) return pidfd.status();
  }
  UniqueFd pidfd(PidfdOpen(credentials.pid));
  if (!pidfd.valid()) return ErrnoStatus(errno, "cannot open a pidfd of", absl::StrCat("process ", credentials.pid));
  TANDEM_ASSIGN_OR_RETURN(const uint64_t now_ticks, StartTimeTicks(credentials.pid));
  Peer peer(credentials.pid, std::move(pidfd));
  if (now_ticks != start_time_ticks || peer.HasExited()) {
    return absl::FailedPreconditionError(absl::StrCat("process ", credentials.pid, " started at tick ", now_ticks,
                                                      " but the tenant says ", start_time_ticks,
                                                      ": the number went to another process; connect again"));
  }
  return peer;
}

absl::Status Peer::CheckMaySignal() const {
  if (PidfdSendSignal(pidfd(), 0) == 0) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "the arbiter may not end process ", pid_, " (", std::strerror(errno),
      "), so its end could never be enforced; run tenant and arbiter under the same uid and PID namespace, "
      "give the arbiter CAP_KILL, or start it with --allow-unkillable"));
}

absl::Status Peer::Kill() const {
  if (PidfdSendSignal(pidfd(), SIGKILL) == 0 || errno == ESRCH) return absl::OkStatus();
  return ErrnoStatus(errno, "cannot kill", absl::StrCat("process ", pid_));
}

bool Peer::HasExited() const {
  pollfd entry{.fd = pidfd(), .events = POLLIN, .revents = 0};
  return poll(&entry, 1, 0) > 0;
}

}  // namespace tandem::lifeline
