#pragma once
// The moments of a checkpoint: CHECKPOINT/tandem/moments.safetensors with, for each tensor NAME of the checkpoint, its
// first and second moment as "m.NAME" and "v.NAME", fp32 and in the checkpoint's shape [n, K]. Streams: no buffer of a
// tensor's size is made.

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "services/checkpoint/weight_manifest.h"

namespace tandem::trainer {

// `between` is asked after each tensor; its error ends the work (the file is then removed).
using BetweenTensors = std::function<absl::Status()>;

// Writes and syncs `path`, which must not exist. `m` and `v` have the manifest's layout.
absl::Status WriteMoments(const std::string& path, const WeightManifest& manifest, absl::Span<const float> m,
                          absl::Span<const float> v, const BetweenTensors& between);

// Reads it back, bit for bit; gaps of the layout become 0. INVALID_ARGUMENT names the file and the tensor that does not
// fit.
absl::Status ReadMoments(const std::string& path, const WeightManifest& manifest, absl::Span<float> m,
                         absl::Span<float> v, const BetweenTensors& between);

}  // namespace tandem::trainer
