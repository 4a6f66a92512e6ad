#include "tests/testing/tiny_model.h"

#include "common/base/status.h"
#include "services/checkpoint/model_init.h"

namespace tandem::testing {

ModelConfig MakeTinyModel(const std::string& dir, const TinyModel& model) {
  ModelInit init;
  init.config.hidden_size = model.hidden_size;
  init.config.intermediate_size = model.intermediate_size;
  init.config.num_hidden_layers = model.layers;
  init.config.num_attention_heads = model.heads;
  init.config.num_key_value_heads = model.kv_heads;
  init.config.head_dim = model.head_dim;
  init.config.vocab_size = model.vocab_size;
  init.config.max_position_embeddings = model.max_position_embeddings;
  init.config.tie_word_embeddings = model.tied;
  init.chat = model.chat;
  init.initializer_range = model.deviation;
  init.seed = model.seed;
  const absl::Status made = InitModel(dir, init);
  TANDEM_CHECK(made.ok(), made.ToString());
  auto config = LoadModelConfig(dir);
  TANDEM_CHECK(config.ok(), config.status().ToString());
  return *std::move(config);
}

}  // namespace tandem::testing
