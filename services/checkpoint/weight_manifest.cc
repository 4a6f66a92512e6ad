#include "services/checkpoint/weight_manifest.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/base/status.h"

namespace tandem {
namespace {

constexpr uint64_t kAlignment = 64;  // elements

// Appends entries one behind the other.
class Layout {
 public:
  struct Part {
    std::string checkpoint_name;
    int64_t n;
  };

  // A matrix [k, sum of the parts' n], or with k = 0 a norm.
  void Add(const std::string& name, int64_t k, const std::vector<Part>& parts) {
    int64_t n = 0;
    for (const Part& part : parts) {
      manifest_.parts.push_back({part.checkpoint_name, manifest_.entries.size(), n, part.n});
      n += part.n;
    }
    WeightEntry entry;
    entry.name = name;
    entry.shape = k > 0 ? std::vector<int64_t>{k, n} : std::vector<int64_t>{n};
    entry.offset = manifest_.total_elements;
    entry.elements = k > 0 ? k * n : n;
    entry.decay = k > 0;
    manifest_.total_elements += (static_cast<uint64_t>(entry.elements) + kAlignment - 1) / kAlignment * kAlignment;
    manifest_.entries.push_back(std::move(entry));
  }
  void AddNorm(const std::string& name, const Part& part) { Add(name, 0, {part}); }

  WeightManifest Finish() {
    manifest_.layout_hash = Hash();
    return std::move(manifest_);
  }

 private:
  // 64-bit FNV-1a (Fowler, Noll, Vo) of the layout's text.
  std::string Hash() const {
    uint64_t hash = 0xcbf29ce484222325;
    for (const WeightEntry& entry : manifest_.entries) {
      const std::string line = absl::StrCat(entry.name, " ", absl::StrJoin(entry.shape, ","), " ", entry.offset, "\n");
      for (const char c : line) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    }
    return absl::StrFormat("%016x", hash);
  }

  WeightManifest manifest_;
};

}  // namespace

WeightManifest MakeWeightManifest(const ModelConfig& config) {
  const int64_t hidden = config.hidden_size;
  const int64_t inter = config.intermediate_size;
  Layout layout;
  if (!config.tie_word_embeddings) {
    layout.Add("embed", hidden, {{"model.embed_tokens.weight", config.vocab_size}});
  }
  for (int i = 0; i < config.num_hidden_layers; ++i) {
    const std::string name = absl::StrCat("layers.", i, ".");
    const std::string source = absl::StrCat("model.layers.", i, ".");
    layout.AddNorm(name + "norm1", {source + "input_layernorm.weight", hidden});
    layout.Add(name + "qkv", hidden,
               {{source + "self_attn.q_proj.weight", config.q_size()},
                {source + "self_attn.k_proj.weight", config.kv_size()},
                {source + "self_attn.v_proj.weight", config.kv_size()}});
    layout.Add(name + "o", config.q_size(), {{source + "self_attn.o_proj.weight", hidden}});
    layout.AddNorm(name + "norm2", {source + "post_attention_layernorm.weight", hidden});
    layout.Add(name + "gate_up", hidden,
               {{source + "mlp.gate_proj.weight", inter}, {source + "mlp.up_proj.weight", inter}});
    layout.Add(name + "down", inter, {{source + "mlp.down_proj.weight", hidden}});
  }
  layout.AddNorm("norm", {"model.norm.weight", hidden});
  const char* head = config.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
  layout.Add("head", hidden, {{head, config.vocab_size}});
  return layout.Finish();
}

const WeightEntry& WeightManifest::at(const std::string& name) const {
  for (const WeightEntry& entry : entries) {
    if (entry.name == name) return entry;
  }
  CheckFailed(__FILE__, __LINE__, "the manifest has the entry", name);
}

}  // namespace tandem
