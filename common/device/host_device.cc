#include "common/device/host_device.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <set>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/device/host_memory.h"

namespace tandem {
namespace {

constexpr int kMadvPopulateWrite = 23;  // MADV_POPULATE_WRITE, newer than some libc headers

}  // namespace

uint64_t HostDevice::BlockBytesFor(uint64_t pool_bytes) {
  uint64_t block = kMinBlockBytes;
  while ((pool_bytes + block - 1) / block > kMaxBlocks) block *= 2;
  return block;
}

absl::StatusOr<std::unique_ptr<HostDevice>> HostDevice::Create(uint64_t pool_bytes) {
  if (pool_bytes == 0) return absl::InvalidArgumentError("pool_bytes is 0; give at least one block of 2 MiB");
  const uint64_t block_bytes = BlockBytesFor(pool_bytes);
  const uint64_t blocks = (pool_bytes + block_bytes - 1) / block_bytes;
  TANDEM_ASSIGN_OR_RETURN(const uint64_t available, AvailableMemoryBytes());
  if (blocks * block_bytes > available) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("pool_bytes %d does not fit: %d bytes of memory are available, %d are missing; "
                        "free memory or give a smaller --pool_bytes",
                        blocks * block_bytes, available, blocks * block_bytes - available));
  }
  TANDEM_ASSIGN_OR_RETURN(ArenaMap map, ArenaMap::Reserve(block_bytes, static_cast<uint32_t>(blocks)));
  std::unique_ptr<HostDevice> device(new HostDevice(std::move(map)));
  for (uint32_t block = 0; block < blocks; ++block) TANDEM_RETURN_IF_ERROR(device->AddBlock(block));
  device->toucher_ = std::thread([raw = device.get()] { raw->TouchAll(); });
  return device;
}

HostDevice::~HostDevice() {
  stopping_ = true;
  if (toucher_.joinable()) toucher_.join();
}

void HostDevice::TouchAll() {
  for (uint32_t block = 0; block < blocks() && !stopping_; ++block) {
    // Populates without writing: tenants may be at work on the bytes. If the kernel can not (before Linux 5.14), pages
    // come in at their first use.
    if (madvise(map_.data() + block * block_bytes(), block_bytes(), kMadvPopulateWrite) != 0) return;
  }
}

absl::Status HostDevice::AddBlock(uint32_t block) {
  const std::string what = absl::StrCat("block ", block, " of ", blocks(), " (", block_bytes(), " bytes each)");
  UniqueFd fd(memfd_create(absl::StrCat("tandem-block-", block).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot create", what);
  if (fchmod(fd.get(), 0600) != 0) return ErrnoStatus(errno, "cannot set the mode of", what);
  const int allocated = posix_fallocate(fd.get(), 0, static_cast<off_t>(block_bytes()));
  if (allocated != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot allocate ", what, ": ", std::strerror(allocated), "; give a smaller --pool_bytes"));
  }
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return ErrnoStatus(errno, "cannot seal", what);
  }
  TANDEM_RETURN_IF_ERROR(map_.Map(block, fd.get(), BlockAccess::kReadWrite));
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "cannot stat", what);
  block_of_inode_[info.st_ino] = block;
  fds_.push_back(std::move(fd));
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> HostDevice::ShareBlock(uint32_t block, BlockAccess access) {
  TANDEM_CHECK(block < fds_.size(), block);
  UniqueFd shared;
  if (access == BlockAccess::kReadWrite) {
    shared.Reset(fcntl(fds_[block].get(), F_DUPFD_CLOEXEC, 0));
  } else {
    shared.Reset(open(absl::StrCat("/proc/self/fd/", fds_[block].get()).c_str(), O_RDONLY | O_CLOEXEC));
  }
  if (!shared.valid()) return ErrnoStatus(errno, "cannot share", absl::StrCat("block ", block));
  return shared;
}

absl::Status HostDevice::CopyToHost(uint64_t offset, uint64_t bytes, std::byte* to) {
  TANDEM_CHECK(offset + bytes <= arena_bytes(), offset, " ", bytes);
  std::memcpy(to, map_.data() + offset, bytes);
  return absl::OkStatus();
}

absl::Status HostDevice::CopyFromHost(uint64_t offset, uint64_t bytes, const std::byte* from) {
  TANDEM_CHECK(offset + bytes <= arena_bytes(), offset, " ", bytes);
  std::memcpy(map_.data() + offset, from, bytes);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uint32_t>> HostDevice::MappedBlocks(int pid, const std::vector<uint32_t>& blocks,
                                                               bool writable_only) const {
  std::FILE* file = std::fopen(absl::StrCat("/proc/", pid, "/maps").c_str(), "re");
  if (file == nullptr) return ErrnoStatus(errno, "cannot read the maps of", absl::StrCat("process ", pid));
  const std::set<uint32_t> asked(blocks.begin(), blocks.end());
  std::set<uint32_t> mapped;
  char line[4608];
  while (std::fgets(line, sizeof line, file) != nullptr) {
    if (std::strstr(line, "/memfd:tandem-block") == nullptr) continue;
    const std::vector<absl::string_view> fields = absl::StrSplit(line, absl::MaxSplits(' ', 5));
    uint64_t inode = 0;
    if (fields.size() < 6 || !absl::SimpleAtoi(fields[4], &inode)) continue;
    const auto found = block_of_inode_.find(inode);
    if (found == block_of_inode_.end() || !asked.contains(found->second)) continue;
    if (!writable_only || fields[1].substr(1, 1) == "w") mapped.insert(found->second);
  }
  std::fclose(file);
  return std::vector<uint32_t>(mapped.begin(), mapped.end());
}

}  // namespace tandem
