#include "common/device/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/file.h"
#include "common/base/status.h"

namespace tandem {
namespace {

constexpr uint64_t kPageBytes = 4096;

std::optional<uint64_t> ReadNumber(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  uint64_t value = 0;
  if (!text.ok() || !absl::SimpleAtoi(*text, &value)) return std::nullopt;  // "max" is no limit
  return value;
}

// Room left in the tightest memory cgroup (version 2) on the path of this process; nothing where none limits.
std::optional<uint64_t> CgroupRoomBytes() {
  const absl::StatusOr<std::string> membership = ReadFile("/proc/self/cgroup");
  if (!membership.ok()) return std::nullopt;
  absl::string_view line = *membership;
  if (!absl::ConsumePrefix(&line, "0::")) return std::nullopt;
  std::string group(absl::StripAsciiWhitespace(line));
  std::optional<uint64_t> room;
  while (!group.empty()) {
    const std::string folder = "/sys/fs/cgroup" + (group == "/" ? "" : group);
    const std::optional<uint64_t> limit = ReadNumber(folder + "/memory.max");
    const std::optional<uint64_t> used = ReadNumber(folder + "/memory.current");
    if (limit && used) room = std::min(room.value_or(UINT64_MAX), *limit > *used ? *limit - *used : 0);
    group.resize(group.find_last_of('/') == std::string::npos ? 0 : group.find_last_of('/'));
  }
  return room;
}

}  // namespace

absl::StatusOr<uint64_t> AvailableMemoryBytes() {
  TANDEM_ASSIGN_OR_RETURN(const std::string text, ReadFile("/proc/meminfo"));
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, "MemAvailable:")) continue;
    absl::ConsumeSuffix(&line, "kB");
    uint64_t kib = 0;
    if (!absl::SimpleAtoi(line, &kib)) break;
    return std::min(kib * 1024, CgroupRoomBytes().value_or(UINT64_MAX));
  }
  return absl::UnavailableError("/proc/meminfo has no MemAvailable line");
}

void TouchPages(std::byte* data, uint64_t bytes) {
  volatile std::byte* const pages = data;
  for (uint64_t at = 0; at < bytes; at += kPageBytes) pages[at] = pages[at];
}

absl::StatusOr<HostBuffer> HostBuffer::Reserve(uint64_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return ErrnoStatus(errno, "cannot reserve", absl::StrCat(bytes, " bytes of host memory"));
  return HostBuffer(static_cast<std::byte*>(data), bytes);
}

HostBuffer::HostBuffer(HostBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_), touched_bytes_(other.touched_bytes_) {}

HostBuffer& HostBuffer::operator=(HostBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(touched_bytes_, other.touched_bytes_);
  return *this;
}

HostBuffer::~HostBuffer() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

bool HostBuffer::TouchNext(uint64_t bytes) {
  const uint64_t step = std::min(bytes, bytes_ - touched_bytes_);
  TouchPages(data_ + touched_bytes_, step);
  touched_bytes_ += step;
  return touched_bytes_ < bytes_;
}

}  // namespace tandem
