#include <algorithm>
#include <bit>
#include <cstring>

#include "common/base/status.h"
#include "services/checkpoint/checkpoint.h"
#include "services/checkpoint/weight_files.h"

namespace tandem {
namespace {

constexpr int64_t kTile = 32;  // rows and columns of a transposed tile: 4 KiB of floats
constexpr int64_t kRowsBetweenProgress = 1024;

struct Float32 {
  using Word = uint32_t;
  static float Value(Word word) { return std::bit_cast<float>(word); }
};
struct BFloat16 {
  using Word = uint16_t;
  static float Value(Word word) { return std::bit_cast<float>(uint32_t{word} << 16); }
};
struct Float16 {
  using Word = uint16_t;
  // Exponent and mantissa moved into place, then scaled by 2^(127 - 15), which also normalises subnormal numbers;
  // infinities and NaNs keep an exponent of ones.
  static float Value(Word word) {
    const uint32_t magnitude = (word & 0x7fffU) << 13;
    const uint32_t bits = magnitude >= 0x0f800000U
                              ? magnitude | 0x7f800000U
                              : std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112F);
    return std::bit_cast<float>(bits | (word & 0x8000U) << 16);
  }
};

template <typename Format>
float Read(const std::byte* source, int64_t index) {
  typename Format::Word word;
  std::memcpy(&word, source + index * static_cast<int64_t>(sizeof word), sizeof word);
  return Format::Value(word);
}

// target[c, r] = source[r, c] for rows [0, n) and columns [0, k) of `source`; a row of `target` has `stride` floats.
template <typename Format>
void Transpose(const std::byte* source, int64_t n, int64_t k, float* target, int64_t stride,
               const std::function<void()>& progress) {
  for (int64_t row = 0; row < n; row += kTile) {
    const int64_t rows = std::min(kTile, n - row);
    for (int64_t column = 0; column < k; column += kTile) {
      const int64_t columns = std::min(kTile, k - column);
      for (int64_t c = column; c < column + columns; ++c) {
        float* out = target + c * stride + row;
        for (int64_t r = 0; r < rows; ++r) out[r] = Read<Format>(source, (row + r) * k + c);
      }
    }
    if (progress && row % kRowsBetweenProgress == 0) progress();
  }
}

template <typename Format>
void Place(const std::byte* source, const WeightEntry& entry, const TensorPart& part, float* weights,
           const std::function<void()>& progress) {
  float* target = weights + entry.offset + part.column;
  if (entry.shape.size() == 1) {
    for (int64_t i = 0; i < part.n; ++i) target[i] = Read<Format>(source, i);
  } else {
    Transpose<Format>(source, part.n, entry.shape[0], target, entry.shape[1], progress);
  }
}

void ZeroGaps(const WeightManifest& manifest, absl::Span<float> weights) {
  for (size_t i = 0; i < manifest.entries.size(); ++i) {
    const uint64_t begin = manifest.entries[i].offset + static_cast<uint64_t>(manifest.entries[i].elements);
    const uint64_t end = i + 1 < manifest.entries.size() ? manifest.entries[i + 1].offset : manifest.total_elements;
    std::fill(weights.begin() + static_cast<ptrdiff_t>(begin), weights.begin() + static_cast<ptrdiff_t>(end), 0.0F);
  }
}

}  // namespace

absl::Status LoadWeights(const std::string& dir, const ModelConfig& /*config*/, const WeightManifest& manifest,
                         absl::Span<float> weights, const std::function<void()>& progress) {
  TANDEM_CHECK(weights.size() == manifest.total_elements, weights.size(), " floats for ", manifest.total_elements);
  TANDEM_ASSIGN_OR_RETURN(const WeightFiles files, WeightFiles::Open(dir, manifest));
  for (size_t i = 0; i < manifest.parts.size(); ++i) {
    const TensorPart& part = manifest.parts[i];
    const WeightEntry& entry = manifest.entries[part.entry];
    const WeightFiles::Source& source = files.source(i);
    const std::byte* bytes = source.file->Bytes(*source.tensor).data();
    switch (source.tensor->dtype) {
      case Dtype::kBF16:
        Place<BFloat16>(bytes, entry, part, weights.data(), progress);
        break;
      case Dtype::kF16:
        Place<Float16>(bytes, entry, part, weights.data(), progress);
        break;
      default:
        Place<Float32>(bytes, entry, part, weights.data(), progress);
    }
    source.file->Release(*source.tensor);
    if (progress) progress();
  }
  ZeroGaps(manifest, weights);
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> CheckWeightFiles(const std::string& dir, const WeightManifest& manifest) {
  TANDEM_ASSIGN_OR_RETURN(const WeightFiles files, WeightFiles::Open(dir, manifest));
  return files.bytes();
}

}  // namespace tandem
