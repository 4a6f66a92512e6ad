#pragma once
// A small random model for tests that need one on disk.

#include <cstdint>
#include <string>

#include "services/checkpoint/model_config.h"

namespace tandem::testing {

struct TinyModel {
  int hidden_size = 64, intermediate_size = 96, layers = 2, heads = 4, kv_heads = 2, head_dim = 16;
  int vocab_size = 260;  // the byte-level tokenizer's; larger adds unused rows
  int max_position_embeddings = 512;
  bool tied = true;
  bool chat = false;  // with a chat template
  // Larger than a real initialisation's 0.02, so that attention and logits are not flat.
  double deviation = 0.1;
  uint64_t seed = 1;
};

// Writes the model with the byte-level tokenizer into `dir` (made; must not exist) and returns its config; ends the
// process on failure.
ModelConfig MakeTinyModel(const std::string& dir, const TinyModel& model = {});

}  // namespace tandem::testing
