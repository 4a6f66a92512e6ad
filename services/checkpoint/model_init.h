#pragma once
// Makes a new model: a Hugging Face directory with random weights, for training from nothing. transformers loads it.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "services/checkpoint/model_config.h"

namespace tandem {

struct ModelInit {
  // The text of a config.json; empty: `config` says the dimensions.
  std::string config_json;
  // Needed: hidden_size, intermediate_size, num_hidden_layers, num_attention_heads. 0 elsewhere means the default:
  // num_key_value_heads as attention heads, head_dim hidden / heads, vocab_size the tokenizer's,
  // max_position_embeddings 2048. Without end and pad tokens those of the byte-level tokenizer are set, when that is
  // used.
  ModelConfig config;
  // Takes the tokenizer, its template and generation_config.json from this directory; empty: the byte-level tokenizer
  // of byte_tokenizer.h, with a chat template if `chat` is set.
  std::string tokenizer_dir;
  bool chat = false;
  // Standard deviation of all matrices; norms are 1. A number in config_json's initializer_range wins.
  double initializer_range = 0.02;
  uint64_t seed = 0;
};

// Writes `dir` (made; must not exist): fp32 weights, config.json, tokenizer, generation_config.json. The same arguments
// give the same bytes. INVALID_ARGUMENT names the field; on failure nothing is left behind.
absl::Status InitModel(const std::string& dir, const ModelInit& init);

}  // namespace tandem
