#pragma once
// Hugging Face directories in and out of the weight layout.

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "services/checkpoint/model_config.h"
#include "services/checkpoint/weight_manifest.h"

namespace tandem {

// Reads the weights of `dir` (model.safetensors, or shards with an index; fp32, bf16, fp16) into `weights`, which holds
// manifest.total_elements floats; gaps are zeroed. Errors name the file, the tensor, its shape and the expected one; a
// tensor that the model does not have, or that is missing, is an error. `progress` (may be empty) is called after each
// tensor.
absl::Status LoadWeights(const std::string& dir, const ModelConfig& config, const WeightManifest& manifest,
                         absl::Span<float> weights, const std::function<void()>& progress = {});

// Bytes of all tensors in the files of `dir` (their headers only): a cheap check before memory is made.
absl::StatusOr<uint64_t> CheckWeightFiles(const std::string& dir, const WeightManifest& manifest);

// Writes weights as fp32 safetensors with config.json (dtype set to float32), generation_config.json, tokenizer files
// and chat template copied from `model_dir`, into `dir` (made; must not exist). Every file is synced. Shards of at most
// `shard_bytes`.
absl::Status SaveCheckpoint(const std::string& dir, const std::string& model_dir, const ModelConfig& config,
                            const WeightManifest& manifest, absl::Span<const float> weights,
                            uint64_t shard_bytes = uint64_t{5} << 30);

}  // namespace tandem
