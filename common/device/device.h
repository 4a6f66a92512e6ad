#pragma once
// The device seam: one arena made of equal physical blocks, and copies between it and host memory.
//
// The arbiter owns one Device per arena. It is not a compute interface (that is kernels/kernels.h), and tenants do not
// use it: they map the descriptors that ShareBlock made (common/device/arena_map.h). Thread-safe: ShareBlock and the
// copies may run at once on different threads as long as the copied bytes differ.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/unique_fd.h"

namespace tandem {

// How a tenant may use a block that it received.
enum class BlockAccess : uint8_t { kReadOnly = 1, kReadWrite = 2 };

class Device {
 public:
  virtual ~Device() = default;

  // Name of the device: its UUID, or "host".
  virtual const std::string& name() const = 0;
  virtual uint64_t block_bytes() const = 0;
  virtual uint32_t blocks() const = 0;
  uint64_t arena_bytes() const { return block_bytes() * blocks(); }

  // A new close-on-exec descriptor of block `block` for one tenant. A read-only one can not be written, resized, mapped
  // writable or made writable by mprotect. RESOURCE_EXHAUSTED when descriptors run out.
  virtual absl::StatusOr<UniqueFd> ShareBlock(uint32_t block, BlockAccess access) = 0;

  // Copies `bytes` bytes between arena offset `offset` and host memory; returns when the copy is complete.
  virtual absl::Status CopyToHost(uint64_t offset, uint64_t bytes, std::byte* to) = 0;
  virtual absl::Status CopyFromHost(uint64_t offset, uint64_t bytes, const std::byte* from) = 0;

  // Of `blocks`, those that process `pid` has mapped (writable only, or any way), as far as the operating system tells:
  // an acknowledgement of a tenant is checked with it. UNAVAILABLE when it can not be told.
  virtual absl::StatusOr<std::vector<uint32_t>> MappedBlocks(int pid, const std::vector<uint32_t>& blocks,
                                                             bool writable_only) const = 0;
};

}  // namespace tandem
