#pragma once
// The host twin of Device: the arena is shared host memory, one sealed memfd per block.
//
// Blocks are mode 0600 and sealed against shrinking, growing and further seals. All pages are allocated and touched
// when the device is made, so that they are charged to the arbiter and a shortage is an error there, not a SIGBUS
// later. The same uid or root can reopen a read-only descriptor writable through /proc: read-only stops bugs, not
// attackers.

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "common/device/arena_map.h"
#include "common/device/device.h"

namespace tandem {

class HostDevice final : public Device {
 public:
  static constexpr uint64_t kMinBlockBytes = uint64_t{2} << 20;
  static constexpr uint64_t kMaxBlocks = 512;

  // The smallest power of two from 2 MiB on with which `pool_bytes` needs at most 512 blocks.
  static uint64_t BlockBytesFor(uint64_t pool_bytes);

  // Allocates an arena of `pool_bytes` rounded up to whole blocks. INVALID_ARGUMENT for 0, RESOURCE_EXHAUSTED with the
  // missing bytes when the machine has less available memory.
  static absl::StatusOr<std::unique_ptr<HostDevice>> Create(uint64_t pool_bytes);

  ~HostDevice() override;

  const std::string& name() const override { return name_; }
  uint64_t block_bytes() const override { return map_.block_bytes(); }
  uint32_t blocks() const override { return map_.blocks(); }
  absl::StatusOr<UniqueFd> ShareBlock(uint32_t block, BlockAccess access) override;
  absl::Status CopyToHost(uint64_t offset, uint64_t bytes, std::byte* to) override;
  absl::Status CopyFromHost(uint64_t offset, uint64_t bytes, const std::byte* from) override;
  absl::StatusOr<std::vector<uint32_t>> MappedBlocks(int pid, const std::vector<uint32_t>& blocks,
                                                     bool writable_only) const override;

 private:
  explicit HostDevice(ArenaMap map) : map_(std::move(map)) {}
  absl::Status AddBlock(uint32_t block);
  void TouchAll();

  const std::string name_ = "host";
  ArenaMap map_;
  std::vector<UniqueFd> fds_;                              // per block
  std::unordered_map<uint64_t, uint32_t> block_of_inode_;  // inode of the memfd -> block
  std::atomic<bool> stopping_{false};
  std::thread toucher_;
};

}  // namespace tandem
