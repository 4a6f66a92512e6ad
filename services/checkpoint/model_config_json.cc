#include <charconv>

#include "nlohmann/json.hpp"
#include "services/checkpoint/model_config.h"

namespace tandem {

using Json = nlohmann::ordered_json;

namespace {

// The double with the fewest digits that rounds to `value`: 1e-05, not 9.99999974737875e-06.
double Shortest(float value) {
  char text[32];
  const auto written = std::to_chars(text, text + sizeof text, value);
  double result = value;
  std::from_chars(text, written.ptr, result);
  return result;
}

Json EndTokens(const std::vector<int>& ids) {
  return ids.size() == 1 ? Json(ids[0]) : Json(ids);
}

}  // namespace

std::string ModelConfigToJson(const ModelConfig& config) {
  Json json = {{"architectures", {config.architecture}},
               {"model_type", "llama"},
               {"hidden_act", "silu"},
               {"hidden_size", config.hidden_size},
               {"intermediate_size", config.intermediate_size},
               {"num_hidden_layers", config.num_hidden_layers},
               {"num_attention_heads", config.num_attention_heads},
               {"num_key_value_heads", config.num_key_value_heads},
               {"head_dim", config.head_dim},
               {"vocab_size", config.vocab_size},
               {"max_position_embeddings", config.max_position_embeddings},
               {"rms_norm_eps", Shortest(config.rms_norm_eps)},
               {"rope_theta", config.rope_theta},
               {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", config.rope_theta}}},
               {"tie_word_embeddings", config.tie_word_embeddings},
               {"attention_bias", false},
               {"mlp_bias", false},
               {"dtype", config.dtype},
               {"torch_dtype", config.dtype}};
  if (config.bos_token_id.has_value()) json["bos_token_id"] = *config.bos_token_id;
  if (!config.eos_token_ids.empty()) json["eos_token_id"] = EndTokens(config.eos_token_ids);
  if (config.pad_token_id.has_value()) json["pad_token_id"] = *config.pad_token_id;
  return json.dump(2) + "\n";
}

std::string GenerationConfigToJson(const ModelConfig& config) {
  Json json = Json::object();
  if (config.bos_token_id.has_value()) json["bos_token_id"] = *config.bos_token_id;
  if (!config.eos_token_ids.empty()) json["eos_token_id"] = EndTokens(config.eos_token_ids);
  if (config.pad_token_id.has_value()) json["pad_token_id"] = *config.pad_token_id;
  if (config.default_temperature.has_value()) json["temperature"] = *config.default_temperature;
  if (config.default_top_p.has_value()) json["top_p"] = *config.default_top_p;
  if (config.default_top_k.has_value()) json["top_k"] = *config.default_top_k;
  return json.dump(2) + "\n";
}

}  // namespace tandem
