#include "common/device/arena_map.h"

#include <sys/mman.h>

#include <cerrno>
#include <utility>

#include "common/base/file.h"
#include "common/base/status.h"

namespace tandem {

absl::StatusOr<ArenaMap> ArenaMap::Reserve(uint64_t block_bytes, uint32_t blocks) {
  void* base = mmap(nullptr, block_bytes * blocks, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    return ErrnoStatus(errno, "cannot reserve addresses for",
                       absl::StrCat("an arena of ", block_bytes * blocks, " bytes"));
  }
  return ArenaMap(static_cast<std::byte*>(base), block_bytes, blocks);
}

ArenaMap::ArenaMap(ArenaMap&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), block_bytes_(other.block_bytes_), access_(std::move(other.access_)) {}

ArenaMap& ArenaMap::operator=(ArenaMap&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(block_bytes_, other.block_bytes_);
  std::swap(access_, other.access_);
  return *this;
}

ArenaMap::~ArenaMap() {
  if (base_ != nullptr) munmap(base_, block_bytes_ * access_.size());
}

absl::Status ArenaMap::Map(uint32_t block, int fd, BlockAccess access) {
  TANDEM_CHECK(block < access_.size(), block);
  const int protection = access == BlockAccess::kReadWrite ? PROT_READ | PROT_WRITE : PROT_READ;
  std::byte* place = base_ + block * block_bytes_;
  if (mmap(place, block_bytes_, protection, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
    return ErrnoStatus(errno, "cannot map", absl::StrCat("block ", block));
  }
  access_[block] = static_cast<uint8_t>(access);
  if (madvise(place, block_bytes_, MADV_DONTFORK) != 0) {
    return ErrnoStatus(errno, "cannot keep from children", absl::StrCat("block ", block));
  }
  return absl::OkStatus();
}

absl::Status ArenaMap::Unmap(uint32_t block) {
  TANDEM_CHECK(block < access_.size(), block);
  std::byte* place = base_ + block * block_bytes_;
  if (mmap(place, block_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) ==
      MAP_FAILED) {
    return ErrnoStatus(errno, "cannot unmap", absl::StrCat("block ", block));
  }
  access_[block] = 0;
  return absl::OkStatus();
}

}  // namespace tandem
