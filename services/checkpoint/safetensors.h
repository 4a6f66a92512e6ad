#pragma once
// Reads one safetensors file through a read-only mapping: no tensor is copied. The header is checked whole when the
// file is opened (see safetensors_header.h). Not for a file that somebody changes meanwhile. Immutable; thread-safe.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/status.h"
#include "services/checkpoint/safetensors_header.h"

namespace tandem {

class Safetensors {
 public:
  // Maps and checks `path`. NOT_FOUND, or INVALID_ARGUMENT naming the file, the tensor and the mistake.
  static absl::StatusOr<std::unique_ptr<Safetensors>> Open(const std::string& path);
  ~Safetensors();
  Safetensors(const Safetensors&) = delete;
  Safetensors& operator=(const Safetensors&) = delete;

  const std::string& path() const { return path_; }
  // In the order of their data.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  // nullptr if there is none of this name.
  const TensorInfo* Find(absl::string_view name) const;
  // The raw little-endian bytes; not necessarily aligned.
  absl::Span<const std::byte> Bytes(const TensorInfo& tensor) const;
  // The elements of a tensor of this type (F32, I32, ...), copied. NOT_FOUND, or INVALID_ARGUMENT for another dtype.
  absl::StatusOr<std::vector<float>> Floats(absl::string_view name) const;
  absl::StatusOr<std::vector<int32_t>> Ints(absl::string_view name) const;

  // Says that the pages of `tensor` are not needed soon, so that they stop counting as this process's memory.
  void Release(const TensorInfo& tensor) const;

 private:
  Safetensors() = default;
  template <typename T>
  absl::StatusOr<std::vector<T>> Copy(absl::string_view name, Dtype dtype) const;

  std::string path_;
  std::byte* map_ = nullptr;
  size_t map_bytes_ = 0;
  size_t data_start_ = 0;
  std::vector<TensorInfo> tensors_;
};

}  // namespace tandem
