#pragma once
// Models whose dimensions divide by nothing that a kernel would like.

#include <vector>

#include "services/checkpoint/model_config.h"

namespace tandem::testing {

inline ModelConfig TinyConfig(int hidden, int layers, int heads, int kv_heads, int head_dim, int intermediate,
                              int vocab, bool tied) {
  ModelConfig config;
  config.architecture = "LlamaForCausalLM";
  config.hidden_size = hidden;
  config.num_hidden_layers = layers;
  config.num_attention_heads = heads;
  config.num_key_value_heads = kv_heads;
  config.head_dim = head_dim;
  config.intermediate_size = intermediate;
  config.vocab_size = vocab;
  config.max_position_embeddings = 512;
  config.rms_norm_eps = 1e-5F;
  config.tie_word_embeddings = tied;
  return config;
}

inline std::vector<ModelConfig> TinyConfigs() {
  return {TinyConfig(72, 2, 3, 3, 24, 100, 293, true), TinyConfig(88, 1, 2, 1, 128, 130, 309, false),
          TinyConfig(120, 2, 3, 1, 40, 177, 403, true), TinyConfig(128, 3, 4, 4, 32, 384, 260, true),
          TinyConfig(96, 2, 12, 2, 6, 61, 347, false)};
}

}  // namespace tandem::testing
