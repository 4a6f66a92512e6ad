#pragma once
// One reserved address range of an arena's size into which blocks are mapped one by one, each at its place. Addresses
// never change while the object lives. Used by the host device (all blocks, writable) and by tenants (what they need).
// Not thread-safe: the owner guards it. Maps are MADV_DONTFORK: a forked child sees none of the pool.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/device/device.h"

namespace tandem {

class ArenaMap {
 public:
  // Reserves `block_bytes` x `blocks` bytes of addresses; nothing is accessible yet.
  static absl::StatusOr<ArenaMap> Reserve(uint64_t block_bytes, uint32_t blocks);
  ArenaMap(ArenaMap&& other) noexcept;
  ArenaMap& operator=(ArenaMap&& other) noexcept;
  ~ArenaMap();

  // Maps block `block` from descriptor `fd` at its place, replacing what was there. The descriptor is not kept.
  absl::Status Map(uint32_t block, int fd, BlockAccess access);
  // Makes block `block` inaccessible again; the addresses stay reserved.
  absl::Status Unmap(uint32_t block);

  bool IsMapped(uint32_t block) const { return access_[block] != 0; }
  bool IsWritable(uint32_t block) const { return access_[block] == static_cast<uint8_t>(BlockAccess::kReadWrite); }
  std::byte* data() const { return base_; }
  uint64_t block_bytes() const { return block_bytes_; }
  uint32_t blocks() const { return static_cast<uint32_t>(access_.size()); }

 private:
  ArenaMap(std::byte* base, uint64_t block_bytes, uint32_t blocks)
      : base_(base), block_bytes_(block_bytes), access_(blocks, 0) {}

  std::byte* base_ = nullptr;
  uint64_t block_bytes_ = 0;
  std::vector<uint8_t> access_;  // per block: 0 or a BlockAccess
};

}  // namespace tandem
