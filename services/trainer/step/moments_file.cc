#include "services/trainer/step/moments_file.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "services/checkpoint/safetensors.h"
#include "services/checkpoint/safetensors_writer.h"

namespace tandem::trainer {
namespace {

constexpr int64_t kRowsAtOnce = 32;  // of the checkpoint's [n, K]: transposed through a buffer that stays in the cache

int64_t RowLength(const WeightEntry& entry) {
  return entry.shape.size() == 1 ? 1 : entry.shape[0];
}
int64_t Stride(const WeightEntry& entry) {
  return entry.shape.size() == 1 ? 1 : entry.shape[1];
}

// Calls use(first, count) for blocks of a tensor's rows.
template <typename Use>
absl::Status ForRowBlocks(const TensorPart& part, const Use& use) {
  for (int64_t row = 0; row < part.n; row += kRowsAtOnce) {
    TANDEM_RETURN_IF_ERROR(use(row, std::min(kRowsAtOnce, part.n - row)));
  }
  return absl::OkStatus();
}

absl::Status WriteTensor(const WeightEntry& entry, const TensorPart& part, const float* layout,
                         SafetensorsWriter& writer) {
  const int64_t k = RowLength(entry), stride = Stride(entry);
  std::vector<float> rows(static_cast<size_t>(kRowsAtOnce * k));
  return ForRowBlocks(part, [&](int64_t first, int64_t count) {
    const float* source = layout + entry.offset + part.column + first;
    for (int64_t c = 0; c < k; ++c) {
      for (int64_t r = 0; r < count; ++r) rows[static_cast<size_t>(r * k + c)] = source[c * stride + r];
    }
    return writer.Append({rows.data(), static_cast<size_t>(count * k)});
  });
}

absl::Status ReadTensor(const WeightEntry& entry, const TensorPart& part, const Safetensors& file,
                        const std::string& name, float* layout) {
  const int64_t k = RowLength(entry), stride = Stride(entry);
  const TensorInfo* tensor = file.Find(name);
  if (tensor == nullptr || tensor->dtype != Dtype::kF32 || tensor->elements() != part.n * k) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": tensor ", name, " is missing or is not F32 of ", part.n * k, " elements"));
  }
  const std::byte* bytes = file.Bytes(*tensor).data();
  std::vector<float> rows(static_cast<size_t>(kRowsAtOnce * k));
  absl::Status read = ForRowBlocks(part, [&](int64_t first, int64_t count) {
    std::memcpy(rows.data(), bytes + first * k * static_cast<int64_t>(sizeof(float)),
                static_cast<size_t>(count * k) * sizeof(float));
    float* target = layout + entry.offset + part.column + first;
    for (int64_t c = 0; c < k; ++c) {
      for (int64_t r = 0; r < count; ++r) target[c * stride + r] = rows[static_cast<size_t>(r * k + c)];
    }
    return absl::OkStatus();
  });
  file.Release(*tensor);
  return read;
}

void ZeroGaps(const WeightManifest& manifest, float* layout) {
  uint64_t end = 0;
  for (const WeightEntry& entry : manifest.entries) {
    std::fill(layout + end, layout + entry.offset, 0.0F);
    end = entry.offset + static_cast<uint64_t>(entry.elements);
  }
  std::fill(layout + end, layout + manifest.total_elements, 0.0F);
}

}  // namespace

absl::Status WriteMoments(const std::string& path, const WeightManifest& manifest, absl::Span<const float> m,
                          absl::Span<const float> v, const BetweenTensors& between) {
  std::vector<SafetensorsWriter::Tensor> tensors;
  for (const char* prefix : {"m.", "v."}) {
    for (const TensorPart& part : manifest.parts) {
      const WeightEntry& entry = manifest.entries[part.entry];
      std::vector<int64_t> shape = {part.n};
      if (entry.shape.size() > 1) shape.push_back(entry.shape[0]);
      tensors.push_back({prefix + part.checkpoint_name, std::move(shape)});
    }
  }
  auto writer = SafetensorsWriter::Create(path, tensors);
  if (!writer.ok()) return writer.status();
  for (const float* layout : {m.data(), v.data()}) {
    for (const TensorPart& part : manifest.parts) {
      TANDEM_RETURN_IF_ERROR(WriteTensor(manifest.entries[part.entry], part, layout, **writer));
      TANDEM_RETURN_IF_ERROR(between());
    }
  }
  return (*writer)->Finish();
}

absl::Status ReadMoments(const std::string& path, const WeightManifest& manifest, absl::Span<float> m,
                         absl::Span<float> v, const BetweenTensors& between) {
  auto file = Safetensors::Open(path);
  if (!file.ok()) return file.status();
  struct Moment {
    const char* prefix;
    float* layout;
  };
  for (const Moment& moment : {Moment{"m.", m.data()}, Moment{"v.", v.data()}}) {
    for (const TensorPart& part : manifest.parts) {
      TANDEM_RETURN_IF_ERROR(
          ReadTensor(manifest.entries[part.entry], part, **file, moment.prefix + part.checkpoint_name, moment.layout));
      TANDEM_RETURN_IF_ERROR(between());
    }
    ZeroGaps(manifest, moment.layout);
  }
  return absl::OkStatus();
}

}  // namespace tandem::trainer
