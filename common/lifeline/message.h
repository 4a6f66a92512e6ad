#pragma once
// What travels over a lifeline: small typed messages, one per packet of a SOCK_SEQPACKET Unix socket, some with file
// descriptors beside them.
//
//   tenant -> arbiter:  Hello, (BlocksAck)*, Goodbye      arbiter -> tenant:  Welcome | Refused, (Blocks)*
//
// Everything else of the protocol is gRPC (proto/tandem/v1/arbiter.proto). The functions are thread-safe in the sense
// of the socket: one sender and one receiver at a time per descriptor.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/unique_fd.h"

namespace tandem::lifeline {

// The kernel's limit of descriptors in one message (SCM_MAX_FD).
inline constexpr size_t kMaxFdsPerMessage = 253;
inline constexpr uint32_t kProtocolVersion = 1;

// First message of a tenant.
struct Hello {
  uint32_t protocol = kProtocolVersion;
  std::string tenant;
  uint32_t longest_unit_ms = 0;
  uint64_t start_time_ticks = 0;  // of the sender, as in /proc/self/stat: re-checked against the pidfd's process
  uint64_t socket_inode = 0;      // of the tenant's end, so that a forked child that holds it can be named
};

// Answer to a Hello: the session is live.
struct Welcome {
  std::string session_key;  // 32 hexadecimal digits, 128 random bits
  uint64_t block_bytes = 0;
  uint32_t blocks = 0;
  uint32_t heartbeat_ms = 0;
};

// Answer to a Hello: no session; the socket is closed next.
struct Refused {
  int32_t code = 0;  // an absl::StatusCode
  std::string text;
};

// Descriptors of blocks, in the order of `blocks`, at most kMaxFdsPerMessage; answered by BlocksAck once mapped.
struct Blocks {
  uint64_t batch = 0;
  uint32_t access = 0;  // a tandem::BlockAccess
  std::vector<uint32_t> blocks;
};

struct BlocksAck {
  uint64_t batch = 0;
  std::string error;  // empty: all mapped
};

// The tenant has unmapped everything and ends its session while its process lives on.
struct Goodbye {};

using Message = std::variant<Hello, Welcome, Refused, Blocks, BlocksAck, Goodbye>;

struct Received {
  Message message;
  std::vector<UniqueFd> fds;
};

// Sends one message with its descriptors. DEADLINE_EXCEEDED when the peer does not read, UNAVAILABLE when it is gone.
absl::Status Send(int socket, const Message& message, absl::Span<const int> fds, absl::Duration timeout);

// Waits for one message; received descriptors are close-on-exec. UNAVAILABLE when the peer closed, DEADLINE_EXCEEDED
// when nothing came, DATA_LOSS for a malformed message or descriptors cut off by the kernel (MSG_CTRUNC).
absl::StatusOr<Received> Receive(int socket, absl::Duration timeout);

}  // namespace tandem::lifeline
