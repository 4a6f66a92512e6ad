#pragma once
// Host memory for kept bytes, and what the machine has of it.
//
// A HostBuffer reserves addresses at once; its pages are touched later, in steps, by the arbiter's mover thread, so
// that neither making a segment nor a hand-over waits for the kernel to clear pages. Not thread-safe.

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tandem {

// MemAvailable of /proc/meminfo, or the room left in this process's memory cgroup if that is less. Bytes.
absl::StatusOr<uint64_t> AvailableMemoryBytes();

// Reads and writes back one byte of every page, so that the page exists.
void TouchPages(std::byte* data, uint64_t bytes);

class HostBuffer {
 public:
  static absl::StatusOr<HostBuffer> Reserve(uint64_t bytes);
  HostBuffer(HostBuffer&& other) noexcept;
  HostBuffer& operator=(HostBuffer&& other) noexcept;
  ~HostBuffer();

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  // Touches up to `bytes` further bytes; false when all are touched.
  bool TouchNext(uint64_t bytes);

 private:
  HostBuffer(std::byte* data, uint64_t bytes) : data_(data), bytes_(bytes) {}

  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
  uint64_t touched_bytes_ = 0;
};

}  // namespace tandem
