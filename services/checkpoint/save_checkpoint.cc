#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "services/checkpoint/checkpoint.h"
#include "services/checkpoint/json_fields.h"
#include "services/checkpoint/safetensors_writer.h"
#include "services/checkpoint/tokenizer_files.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kRowsAtOnce = 32;

SafetensorsWriter::Tensor Declare(const WeightManifest& manifest, const TensorPart& part) {
  const WeightEntry& entry = manifest.entries[part.entry];
  if (entry.shape.size() == 1) return {part.checkpoint_name, {part.n}};
  return {part.checkpoint_name, {part.n, entry.shape[0]}};
}

uint64_t PartBytes(const WeightManifest& manifest, const TensorPart& part) {
  const WeightEntry& entry = manifest.entries[part.entry];
  return sizeof(float) * static_cast<uint64_t>(part.n * (entry.shape.size() == 1 ? 1 : entry.shape[0]));
}

// Appends one tensor in the checkpoint's layout [n, K], a few rows at a time.
absl::Status WritePart(const WeightEntry& entry, const TensorPart& part, const float* weights,
                       SafetensorsWriter& writer) {
  const float* source = weights + entry.offset + part.column;
  if (entry.shape.size() == 1) return writer.Append({source, static_cast<size_t>(part.n)});
  const int64_t k = entry.shape[0];
  const int64_t stride = entry.shape[1];
  std::vector<float> rows(static_cast<size_t>(std::min(kRowsAtOnce, part.n) * k));
  for (int64_t row = 0; row < part.n; row += kRowsAtOnce) {
    const int64_t count = std::min(kRowsAtOnce, part.n - row);
    for (int64_t c = 0; c < k; ++c) {
      const float* from = source + c * stride + row;
      for (int64_t r = 0; r < count; ++r) rows[static_cast<size_t>(r * k + c)] = from[r];
    }
    TANDEM_RETURN_IF_ERROR(writer.Append({rows.data(), static_cast<size_t>(count * k)}));
  }
  return absl::OkStatus();
}

absl::Status WriteShard(const std::string& path, const WeightManifest& manifest, absl::Span<const TensorPart> parts,
                        const float* weights) {
  std::vector<SafetensorsWriter::Tensor> tensors;
  for (const TensorPart& part : parts) tensors.push_back(Declare(manifest, part));
  auto writer = SafetensorsWriter::Create(path, tensors);
  if (!writer.ok()) return writer.status();
  for (const TensorPart& part : parts) {
    TANDEM_RETURN_IF_ERROR(WritePart(manifest.entries[part.entry], part, weights, **writer));
  }
  return (*writer)->Finish();
}

// Ends (exclusive) of the shards in manifest.parts; a tensor larger than `shard_bytes` gets a shard of its own.
std::vector<size_t> ShardEnds(const WeightManifest& manifest, uint64_t shard_bytes) {
  std::vector<size_t> ends;
  uint64_t bytes = 0;
  for (size_t i = 0; i < manifest.parts.size(); ++i) {
    const uint64_t size = PartBytes(manifest, manifest.parts[i]);
    if (bytes > 0 && bytes + size > shard_bytes) {
      ends.push_back(i);
      bytes = 0;
    }
    bytes += size;
  }
  ends.push_back(manifest.parts.size());
  return ends;
}

absl::Status WriteWeights(const std::string& dir, const WeightManifest& manifest, const float* weights,
                          uint64_t shard_bytes) {
  const std::vector<size_t> ends = ShardEnds(manifest, shard_bytes);
  const absl::Span<const TensorPart> parts = manifest.parts;
  if (ends.size() == 1) return WriteShard(dir + "/model.safetensors", manifest, parts, weights);
  Json index = {{"metadata", {{"total_size", uint64_t{0}}}}, {"weight_map", Json::object()}};
  uint64_t total = 0;
  size_t begin = 0;
  for (size_t shard = 0; shard < ends.size(); ++shard) {
    const std::string name = absl::StrFormat("model-%05d-of-%05d.safetensors", shard + 1, ends.size());
    const auto shard_parts = parts.subspan(begin, ends[shard] - begin);
    TANDEM_RETURN_IF_ERROR(WriteShard(absl::StrCat(dir, "/", name), manifest, shard_parts, weights));
    for (const TensorPart& part : shard_parts) {
      index["weight_map"][part.checkpoint_name] = name;
      total += PartBytes(manifest, part);
    }
    begin = ends[shard];
  }
  index["metadata"]["total_size"] = total;
  return WriteFileAtomically(dir + "/model.safetensors.index.json", index.dump(2) + "\n");
}

// config.json of `model_dir` with all its keys; only the dtype is replaced.
absl::Status WriteConfig(const std::string& dir, const std::string& model_dir) {
  const std::string path = model_dir + "/config.json";
  TANDEM_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  TANDEM_ASSIGN_OR_RETURN(Json config, ParseJsonObject(text, path));
  if (config.contains("dtype") || !config.contains("torch_dtype")) config["dtype"] = "float32";
  if (config.contains("torch_dtype")) config["torch_dtype"] = "float32";
  return WriteFileAtomically(dir + "/config.json", config.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

absl::Status Fill(const std::string& dir, const std::string& model_dir, const WeightManifest& manifest,
                  const float* weights, uint64_t shard_bytes) {
  TANDEM_RETURN_IF_ERROR(WriteConfig(dir, model_dir));
  TANDEM_RETURN_IF_ERROR(CopyTokenizerFiles(model_dir, dir));
  TANDEM_RETURN_IF_ERROR(WriteWeights(dir, manifest, weights, shard_bytes));
  TANDEM_RETURN_IF_ERROR(SyncDirectory(dir));
  const std::string parent = std::filesystem::path(dir).parent_path().string();
  return SyncDirectory(parent.empty() ? "." : parent);
}

}  // namespace

absl::Status SaveCheckpoint(const std::string& dir, const std::string& model_dir, const ModelConfig& /*config*/,
                            const WeightManifest& manifest, absl::Span<const float> weights, uint64_t shard_bytes) {
  TANDEM_CHECK(weights.size() == manifest.total_elements, weights.size(), " floats for ", manifest.total_elements);
  if (mkdir(dir.c_str(), 0755) != 0) return ErrnoStatus(errno, "cannot make the checkpoint directory", dir);
  absl::Status saved = Fill(dir, model_dir, manifest, weights.data(), shard_bytes);
  if (!saved.ok()) {
    std::error_code ignored;
    std::filesystem::remove_all(dir, ignored);
  }
  return saved;
}

}  // namespace tandem
