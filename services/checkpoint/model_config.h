#pragma once
// The architecture of a checkpoint, read from config.json (transformers 4 and 5 dialects) and generation_config.json.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tandem {

// A Llama-family decoder. All counts are exact; nothing is derived again elsewhere.
struct ModelConfig {
  std::string architecture;  // "LlamaForCausalLM"
  int hidden_size = 0;
  int intermediate_size = 0;
  int num_hidden_layers = 0;
  int num_attention_heads = 0;
  int num_key_value_heads = 0;
  int head_dim = 0;
  int vocab_size = 0;
  int max_position_embeddings = 0;
  float rms_norm_eps = 1e-6F;
  double rope_theta = 10000.0;
  bool tie_word_embeddings = false;
  std::string dtype;  // of the files: "float32", "bfloat16", "float16"
  std::optional<int> bos_token_id;
  // End tokens of config.json and generation_config.json, without duplicates.
  std::vector<int> eos_token_ids;
  std::optional<int> pad_token_id;
  // The token whose lookup has no gradient: config.json's pad_token_id, which transformers makes padding_idx of the
  // embedding. Of training only; not part of a served model's JSON.
  std::optional<int> padding_idx;
  // Sampling defaults of generation_config.json; for chat and generate only.
  std::optional<double> default_temperature, default_top_p;
  std::optional<int> default_top_k;

  int q_size() const { return num_attention_heads * head_dim; }
  int kv_size() const { return num_key_value_heads * head_dim; }
  int qkv_size() const { return q_size() + 2 * kv_size(); }
};

// Reads DIR/config.json and DIR/generation_config.json (optional). INVALID_ARGUMENT names the file, the field, its
// value and what is supported; an architecture or rope type that is not supported is refused by name.
absl::StatusOr<ModelConfig> LoadModelConfig(const std::string& dir);

// The same from texts; `generation_config` may be empty. `where` stands in errors.
absl::StatusOr<ModelConfig> ParseModelConfig(const std::string& config, const std::string& generation_config,
                                             const std::string& where);

// The texts that ParseModelConfig reads back to the same config: config.json (with both dialects' keys, so that every
// transformers from 4.0 on reads it) and generation_config.json.
std::string ModelConfigToJson(const ModelConfig& config);
std::string GenerationConfigToJson(const ModelConfig& config);

}  // namespace tandem
