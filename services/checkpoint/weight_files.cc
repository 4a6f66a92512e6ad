#include "services/checkpoint/weight_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/file.h"
#include "services/checkpoint/json_fields.h"

namespace tandem {
namespace {

constexpr size_t kMaxIndexBytes = size_t{64} << 20;
constexpr size_t kMaxShards = 4096;

// File names of the shards, in order, from the index's weight_map.
absl::StatusOr<std::vector<std::string>> ShardNames(const std::string& index, const std::string& path) {
  TANDEM_ASSIGN_OR_RETURN(const auto object, ParseJsonObject(index, path));
  const JsonFields fields(object, path);
  const nlohmann::ordered_json* map = fields.Find("weight_map");
  if (map == nullptr || !map->is_object() || map->empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": weight_map, an object from tensor to file, is needed"));
  }
  std::set<std::string> names;
  for (const auto& [tensor, value] : map->items()) {
    const std::string name = value.is_string() ? value.get<std::string>() : "";
    // A plain name only: an index must not reach outside its directory.
    if (!absl::EndsWith(name, ".safetensors") || absl::StrContains(name, '/') || absl::StrContains(name, '\0')) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": tensor ", Quoted(tensor), " is in ", Quoted(name),
                                                     ", which is not the name of a .safetensors file beside it"));
    }
    names.insert(name);
    if (names.size() > kMaxShards) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": more than ", kMaxShards, " shards"));
    }
  }
  return std::vector<std::string>(names.begin(), names.end());
}

absl::StatusOr<std::vector<std::string>> FileNames(const std::string& dir) {
  // As in transformers, the single file wins.
  struct stat info {};
  if (stat((dir + "/model.safetensors").c_str(), &info) == 0) return std::vector<std::string>{"model.safetensors"};
  const std::string path = dir + "/model.safetensors.index.json";
  auto index = ReadFile(path, kMaxIndexBytes);
  if (absl::IsNotFound(index.status())) {
    return absl::NotFoundError(absl::StrCat(dir, " has neither model.safetensors nor model.safetensors.index.json; ",
                                            "fetch the weights in safetensors format"));
  }
  if (!index.ok()) return index.status();
  return ShardNames(*index, path);
}

std::vector<int64_t> ExpectedShape(const WeightManifest& manifest, const TensorPart& part) {
  const WeightEntry& entry = manifest.entries[part.entry];
  if (entry.shape.size() == 1) return {part.n};
  return {part.n, entry.shape[0]};
}

absl::Status CheckTensor(const WeightFiles::Source& source, const std::vector<int64_t>& expected) {
  const TensorInfo& tensor = *source.tensor;
  const std::string where = absl::StrCat(source.file->path(), ": tensor ", Quoted(tensor.name));
  if (tensor.dtype != Dtype::kF32 && tensor.dtype != Dtype::kBF16 && tensor.dtype != Dtype::kF16) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, " is ", DtypeName(tensor.dtype), "; F32, BF16 or F16 is needed: convert the checkpoint"));
  }
  if (tensor.shape != expected) {
    return absl::InvalidArgumentError(absl::StrCat(where, " has shape ", tensor.ShapeText(),
                                                   ", but config.json gives [", absl::StrJoin(expected, ", "),
                                                   "]: the two files belong to different models"));
  }
  return absl::OkStatus();
}

// Tensors that a directory may hold beside the model's: the rotary frequencies of old checkpoints (a constant), and the
// head of a tied model, which transformers ignores too.
bool MayIgnore(absl::string_view name, bool tied) {
  return absl::EndsWith(name, ".rotary_emb.inv_freq") || (tied && name == "lm_head.weight");
}

}  // namespace

absl::StatusOr<WeightFiles> WeightFiles::Open(const std::string& dir, const WeightManifest& manifest) {
  TANDEM_ASSIGN_OR_RETURN(const std::vector<std::string> names, FileNames(dir));
  WeightFiles files;
  for (const std::string& name : names) {
    auto file = Safetensors::Open(absl::StrCat(dir, "/", name));
    if (!file.ok()) return file.status();
    files.files_.push_back(*std::move(file));
  }
  TANDEM_RETURN_IF_ERROR(files.Match(dir, manifest));
  return files;
}

absl::Status WeightFiles::Match(const std::string& dir, const WeightManifest& manifest) {
  std::map<absl::string_view, Source> found;
  for (const auto& file : files_) {
    for (const TensorInfo& tensor : file->tensors()) {
      const auto [it, fresh] = found.emplace(tensor.name, Source{file.get(), &tensor});
      if (!fresh) {
        return absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(tensor.name), " is in both ", file->path(),
                                                       " and ", it->second.file->path()));
      }
    }
  }
  for (const TensorPart& part : manifest.parts) {
    const auto it = found.find(part.checkpoint_name);
    if (it == found.end()) {
      return absl::InvalidArgumentError(absl::StrCat(dir, ": tensor ", Quoted(part.checkpoint_name),
                                                     " is missing from the safetensors files; fetch them again"));
    }
    TANDEM_RETURN_IF_ERROR(CheckTensor(it->second, ExpectedShape(manifest, part)));
    sources_.push_back(it->second);
    bytes_ += it->second.tensor->end - it->second.tensor->begin;
    found.erase(it);
  }
  const bool tied = std::none_of(manifest.parts.begin(), manifest.parts.end(),
                                 [](const TensorPart& part) { return part.checkpoint_name == "lm_head.weight"; });
  for (const auto& [name, source] : found) {
    if (MayIgnore(name, tied)) continue;
    return absl::InvalidArgumentError(absl::StrCat(source.file->path(), ": tensor ", Quoted(name),
                                                   " is not part of a Llama model of this config.json"));
  }
  return absl::OkStatus();
}

}  // namespace tandem
