#pragma once
// Writes one safetensors file as a stream: the tensors are declared first, then their elements are appended in the same
// order. One thread. A file that was not finished is removed.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/unique_fd.h"

namespace tandem {

class SafetensorsWriter {
 public:
  struct Tensor {
    std::string name;
    std::vector<int64_t> shape;
  };

  // Creates `path` (must not exist) for fp32 tensors in this order.
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Create(const std::string& path,
                                                                   const std::vector<Tensor>& tensors);
  ~SafetensorsWriter();

  // The next elements. RESOURCE_EXHAUSTED when the disk is full.
  absl::Status Append(absl::Span<const float> values);
  // Writes what is buffered and syncs. Exactly the declared elements must have been appended.
  absl::Status Finish();

 private:
  SafetensorsWriter(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  absl::Status Write(const char* bytes, size_t count);
  absl::Status FlushBuffer();

  std::string path_;
  UniqueFd fd_;
  std::vector<float> buffer_;
  uint64_t missing_ = 0;  // elements declared and not appended yet
  bool finished_ = false;
};

}  // namespace tandem
