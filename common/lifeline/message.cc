#include "common/lifeline/message.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/base/file.h"
#include "common/base/status.h"
#include "common/lifeline/message_codec.h"

namespace tandem::lifeline {
namespace {

constexpr size_t kControlBytes = CMSG_SPACE(kMaxFdsPerMessage * sizeof(int));

// Waits until `socket` is ready for `events`; DEADLINE_EXCEEDED on time-out.
absl::Status Await(int socket, int16_t events, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (true) {
    pollfd entry{.fd = socket, .events = events, .revents = 0};
    const int64_t left_ms = std::clamp<int64_t>(absl::ToInt64Milliseconds(deadline - absl::Now()), 0, 1 << 30);
    const int ready = poll(&entry, 1, static_cast<int>(left_ms));
    if (ready > 0) return absl::OkStatus();
    if (ready == 0) return absl::DeadlineExceededError("the peer of the lifeline did not answer in time");
    if (errno != EINTR) return ErrnoStatus(errno, "cannot wait for", "the lifeline");
  }
}

std::vector<UniqueFd> TakeDescriptors(msghdr& header) {
  std::vector<UniqueFd> fds;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof fd);
      fds.emplace_back(fd);
    }
  }
  return fds;
}

}  // namespace

absl::Status Send(int socket, const Message& message, absl::Span<const int> fds, absl::Duration timeout) {
  TANDEM_CHECK(fds.size() <= kMaxFdsPerMessage, fds.size());
  std::string bytes = Encode(message);
  TANDEM_CHECK(bytes.size() <= kMaxMessageBytes, bytes.size());
  iovec part{.iov_base = bytes.data(), .iov_len = bytes.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[kControlBytes] = {};
  if (!fds.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
  }
  const absl::Time deadline = absl::Now() + timeout;
  while (sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return ErrnoStatus(errno, "cannot send over", "the lifeline");
    TANDEM_RETURN_IF_ERROR(Await(socket, POLLOUT, deadline - absl::Now()));
  }
  return absl::OkStatus();
}

absl::StatusOr<Received> Receive(int socket, absl::Duration timeout) {
  TANDEM_RETURN_IF_ERROR(Await(socket, POLLIN, timeout));
  char bytes[kMaxMessageBytes];
  iovec part{.iov_base = bytes, .iov_len = sizeof bytes};
  alignas(cmsghdr) char control[kControlBytes];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t size = -1;
  do {
    size = recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (size < 0 && errno == EINTR);
  if (size == 0) return absl::UnavailableError("the peer closed its lifeline");
  if (size < 0) return ErrnoStatus(errno, "cannot receive from", "the lifeline");
  Received received{.message = Goodbye{}, .fds = TakeDescriptors(header)};
  if ((header.msg_flags & MSG_CTRUNC) != 0) {
    return absl::DataLossError("descriptors were cut off (MSG_CTRUNC): raise the limit of open files (ulimit -n)");
  }
  if ((header.msg_flags & MSG_TRUNC) != 0) return absl::DataLossError("a lifeline message is too long");
  TANDEM_ASSIGN_OR_RETURN(received.message, Decode(absl::string_view(bytes, static_cast<size_t>(size))));
  return received;
}

}  // namespace tandem::lifeline
