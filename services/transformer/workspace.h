#pragma once
// Cuts a caller's memory into arrays, one behind the other. Started at null it only counts, so that the size of a
// workspace and its layout are one piece of code.

#include <cstddef>
#include <cstdint>

namespace tandem {

class Workspace {
 public:
  explicit Workspace(std::byte* base) : base_(base) {}

  float* Floats(int64_t n) { return static_cast<float*>(Take(n * sizeof(float))); }
  int* Ints(int64_t n) { return static_cast<int*>(Take(n * sizeof(int))); }
  // Bytes taken so far; each array begins at a multiple of 64.
  uint64_t bytes() const { return bytes_; }

 private:
  void* Take(uint64_t bytes) {
    void* array = base_ ? base_ + bytes_ : nullptr;
    bytes_ += (bytes + 63) / 64 * 64;
    return array;
  }

  std::byte* base_;
  uint64_t bytes_ = 0;
};

}  // namespace tandem
