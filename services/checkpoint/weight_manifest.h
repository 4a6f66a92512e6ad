#pragma once
// Where each weight lies in the shared segment: the contract between the writer (trainer, loader) and every reader.
//
// Weights on the host device are fp32 and every matrix is stored [K, N] (input dimension first, N contiguous), the
// transpose of the checkpoint's [N, K]. A tied embedding is stored once, as the head. Entries, in this order:
//   embed             [hidden, vocab]                  untied models only
//   layers.I.norm1    [hidden]                         input_layernorm
//   layers.I.qkv      [hidden, q + k + v]              q_proj, k_proj, v_proj side by side
//   layers.I.o        [q, hidden]                      o_proj
//   layers.I.norm2    [hidden]                         post_attention_layernorm
//   layers.I.gate_up  [hidden, 2 * intermediate]       gate_proj, up_proj side by side
//   layers.I.down     [intermediate, hidden]           down_proj
//   norm              [hidden]
//   head              [hidden, vocab]

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/checkpoint/model_config.h"

namespace tandem {

struct WeightEntry {
  std::string name;            // "layers.0.qkv", "layers.0.norm1", "norm", "head", "embed" (untied only)
  std::vector<int64_t> shape;  // [K, N], or [N] for a norm; embed is [hidden, vocab] too
  uint64_t offset = 0;         // in elements of fp32 from the segment's start; a multiple of 64
  int64_t elements = 0;
  bool decay = false;  // weight decay applies: matrices, not norms
};

// A part of an entry that is one tensor of the checkpoint: columns [column, column + n) of the entry, transposed.
struct TensorPart {
  std::string checkpoint_name;  // "model.layers.0.self_attn.k_proj.weight"
  size_t entry = 0;             // index into entries
  int64_t column = 0;
  int64_t n = 0;  // checkpoint shape is [n, K] for matrices, [n] for norms
};

struct WeightManifest {
  std::vector<WeightEntry> entries;  // in ascending offset
  std::vector<TensorPart> parts;     // every checkpoint tensor exactly once
  uint64_t total_elements = 0;       // including alignment gaps
  std::string layout_hash;           // of names, shapes and offsets; readers refuse another one

  uint64_t bytes() const { return total_elements * sizeof(float); }
  // Entry by name; ends the process if there is none.
  const WeightEntry& at(const std::string& name) const;
};

// The layout of a model; a pure function of the config.
WeightManifest MakeWeightManifest(const ModelConfig& config);

// What stands in SetInfo.manifest: the layout hash, bytes, the model's directory and its config, as JSON.
struct ServedModel {
  std::string name;       // what clients call it: the directory as given, or "job-3"
  std::string model_dir;  // tokenizer and generation_config are read from here
  ModelConfig config;
  std::string layout_hash;
};
// A reader checks `layout_hash` against MakeWeightManifest(config) before it uses the weights.
std::string ServedModelToJson(const ServedModel& model);
absl::StatusOr<ServedModel> ServedModelFromJson(const std::string& json);

}  // namespace tandem
