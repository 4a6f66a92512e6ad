#pragma once
// The safetensors files of a model directory as one set of tensors: model.safetensors, or the shards that
// model.safetensors.index.json names, matched against the weight manifest. Immutable; thread-safe.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/checkpoint/safetensors.h"
#include "services/checkpoint/weight_manifest.h"

namespace tandem {

class WeightFiles {
 public:
  struct Source {
    const Safetensors* file;
    const TensorInfo* tensor;
  };

  // Opens the files of `dir` and finds every part of the manifest: missing tensors, tensors that the model does not
  // have, other shapes and dtypes that are not F32, BF16 or F16 are INVALID_ARGUMENT, with file, tensor, shape and the
  // expected one.
  static absl::StatusOr<WeightFiles> Open(const std::string& dir, const WeightManifest& manifest);

  // The tensor of manifest.parts[part].
  const Source& source(size_t part) const { return sources_[part]; }
  // Of all tensors of the model.
  uint64_t bytes() const { return bytes_; }

 private:
  absl::Status Match(const std::string& dir, const WeightManifest& manifest);

  std::vector<std::unique_ptr<Safetensors>> files_;
  std::vector<Source> sources_;
  uint64_t bytes_ = 0;
};

}  // namespace tandem
