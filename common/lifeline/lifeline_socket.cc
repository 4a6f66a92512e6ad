#include "common/lifeline/lifeline_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "common/base/file.h"
#include "common/base/status.h"

namespace tandem::lifeline {
namespace {

constexpr int kBacklog = 64;
constexpr absl::Duration kConnectRetry = absl::Milliseconds(20);

absl::StatusOr<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return absl::InvalidArgumentError(absl::StrCat("socket path ", path, " is longer than ",
                                                   sizeof address.sun_path - 1, " bytes; choose a shorter run_dir"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

absl::StatusOr<UniqueFd> NewSocket(int flags) {
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot make", "a Unix socket");
  return fd;
}

}  // namespace

absl::StatusOr<UniqueFd> Listen(const std::string& path) {
  TANDEM_ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path));
  TANDEM_ASSIGN_OR_RETURN(UniqueFd fd, NewSocket(SOCK_NONBLOCK));
  unlink(path.c_str());
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return ErrnoStatus(errno, "cannot bind", path);
  }
  if (chmod(path.c_str(), 0660) != 0) return ErrnoStatus(errno, "cannot set the mode of", path);
  if (listen(fd.get(), kBacklog) != 0) return ErrnoStatus(errno, "cannot listen on", path);
  return fd;
}

absl::StatusOr<UniqueFd> Accept(int listener) {
  UniqueFd fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot accept", "a lifeline");
  return fd;
}

absl::StatusOr<UniqueFd> Connect(const std::string& path, absl::Duration timeout) {
  TANDEM_ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path));
  const absl::Time deadline = absl::Now() + timeout;
  while (true) {
    TANDEM_ASSIGN_OR_RETURN(UniqueFd fd, NewSocket(0));
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
    const int error = errno;
    const bool not_there_yet = error == ENOENT || error == ECONNREFUSED || error == EAGAIN || error == EINTR;
    if (!not_there_yet) return ErrnoStatus(error, "cannot connect to", path);
    if (absl::Now() + kConnectRetry > deadline) {
      return absl::UnavailableError(
          absl::StrCat("no arbiter listens on ", path, ": ", std::strerror(error), "; start it with `tandem up`"));
    }
    absl::SleepFor(kConnectRetry);
  }
}

}  // namespace tandem::lifeline
