#include "services/checkpoint/model_config.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "services/checkpoint/json_fields.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;
constexpr size_t kMaxConfigBytes = size_t{1} << 20;
constexpr char kRemedy[] = "use a checkpoint of the Llama family without rope scaling, biases or quantisation";

absl::Status CheckArchitecture(const JsonFields& fields) {
  if (const Json* names = fields.Find("architectures"); names != nullptr) {
    if (!names->is_array() || names->size() != 1 || (*names)[0] != "LlamaForCausalLM") {
      return fields.Error("architectures", absl::StrCat("only LlamaForCausalLM is supported; ", kRemedy));
    }
  } else if (!fields.Has("model_type")) {
    return fields.Error("architectures", "\"LlamaForCausalLM\" is needed");
  }
  TANDEM_ASSIGN_OR_RETURN(const std::string type, fields.String("model_type", "llama"));
  if (type != "llama") return fields.Error("model_type", absl::StrCat("only llama is supported; ", kRemedy));
  TANDEM_ASSIGN_OR_RETURN(const std::string act, fields.String("hidden_act", "silu"));
  if (act != "silu") return fields.Error("hidden_act", absl::StrCat("only silu is supported; ", kRemedy));
  for (const char* bias : {"attention_bias", "mlp_bias"}) {
    TANDEM_ASSIGN_OR_RETURN(const bool on, fields.Bool(bias, false));
    if (on) return fields.Error(bias, absl::StrCat("biases are not supported; ", kRemedy));
  }
  if (fields.Has("quantization_config")) {
    return fields.Error("quantization_config", absl::StrCat("quantised weights are not supported; ", kRemedy));
  }
  return absl::OkStatus();
}

// One of rope_scaling (transformers 4) and rope_parameters (5): refused unless its type is "default".
absl::Status CheckRopeType(const JsonFields& fields, const std::string& field) {
  const Json* rope = fields.Find(field);
  if (rope == nullptr) return absl::OkStatus();
  if (!rope->is_object()) return fields.Error(field, "an object or null is needed");
  for (const char* key : {"rope_type", "type"}) {
    const auto type = rope->find(key);
    if (type != rope->end() && !type->is_null() && *type != "default") {
      return fields.Error(field, absl::StrCat("rope type ", type->dump(-1, ' ', false, Json::error_handler_t::replace),
                                              " is not supported, only \"default\"; ", kRemedy));
    }
  }
  for (const auto& [key, value] : rope->items()) {
    if (value.is_object() || (key == "factor" && value != 1.0) || (key == "partial_rotary_factor" && value != 1.0)) {
      return fields.Error(field, absl::StrCat(Quoted(key), " is not supported here; ", kRemedy));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<double> RopeTheta(const JsonFields& fields, const std::string& where) {
  TANDEM_RETURN_IF_ERROR(CheckRopeType(fields, "rope_scaling"));
  TANDEM_RETURN_IF_ERROR(CheckRopeType(fields, "rope_parameters"));
  TANDEM_ASSIGN_OR_RETURN(const double theta, fields.Number("rope_theta", 1.0, 1e12, 10000.0));
  const Json* parameters = fields.Find("rope_parameters");
  if (parameters == nullptr) return theta;
  return JsonFields(*parameters, where + ": rope_parameters").Number("rope_theta", 1.0, 1e12, theta);
}

absl::Status ReadDimensions(const JsonFields& fields, ModelConfig& config) {
  TANDEM_ASSIGN_OR_RETURN(config.hidden_size, fields.Int("hidden_size", 1, 1 << 17));
  TANDEM_ASSIGN_OR_RETURN(config.intermediate_size, fields.Int("intermediate_size", 1, 1 << 20));
  TANDEM_ASSIGN_OR_RETURN(config.num_hidden_layers, fields.Int("num_hidden_layers", 1, 1024));
  TANDEM_ASSIGN_OR_RETURN(config.num_attention_heads, fields.Int("num_attention_heads", 1, 4096));
  TANDEM_ASSIGN_OR_RETURN(config.num_key_value_heads,
                          fields.Int("num_key_value_heads", 1, 4096, config.num_attention_heads));
  if (config.num_attention_heads % config.num_key_value_heads != 0) {
    return fields.Error("num_key_value_heads",
                        absl::StrCat("it must divide num_attention_heads, which is ", config.num_attention_heads));
  }
  if (!fields.Has("head_dim") && config.hidden_size % config.num_attention_heads != 0) {
    return fields.Error("hidden_size", absl::StrCat("without head_dim it must be a multiple of num_attention_heads, ",
                                                    "which is ", config.num_attention_heads));
  }
  TANDEM_ASSIGN_OR_RETURN(config.head_dim,
                          fields.Int("head_dim", 2, 1024, config.hidden_size / config.num_attention_heads));
  if (config.head_dim % 2 != 0) {
    return fields.Error("head_dim", absl::StrCat("it is ", config.head_dim, ", but rotary positions need an even one"));
  }
  TANDEM_ASSIGN_OR_RETURN(config.vocab_size, fields.Int("vocab_size", 1, 1 << 22));
  TANDEM_ASSIGN_OR_RETURN(config.max_position_embeddings, fields.Int("max_position_embeddings", 1, 1 << 24, 2048));
  TANDEM_ASSIGN_OR_RETURN(const double eps, fields.Number("rms_norm_eps", 0.0, 1.0, 1e-6));
  config.rms_norm_eps = static_cast<float>(eps);
  TANDEM_ASSIGN_OR_RETURN(config.tie_word_embeddings, fields.Bool("tie_word_embeddings", false));
  return absl::OkStatus();
}

absl::Status ReadDtype(const JsonFields& fields, ModelConfig& config) {
  const std::string field = fields.Has("dtype") ? "dtype" : "torch_dtype";
  TANDEM_ASSIGN_OR_RETURN(config.dtype, fields.String(field, "float32"));
  if (config.dtype != "float32" && config.dtype != "bfloat16" && config.dtype != "float16") {
    return fields.Error(field, "float32, bfloat16 or float16 is needed");
  }
  return absl::OkStatus();
}

// A token id of the vocabulary; absent or -1 (an old way to say "none") leaves `id` as it is.
absl::Status ReadTokenId(const JsonFields& fields, const std::string& field, int vocab_size, std::optional<int>& id) {
  if (!fields.Has(field)) return absl::OkStatus();
  TANDEM_ASSIGN_OR_RETURN(const int value, fields.Int(field, -1, vocab_size - 1));
  if (value >= 0) id = value;
  return absl::OkStatus();
}

// A number or a list of numbers; adds those that are not in `ids` yet.
absl::Status ReadEndTokens(const JsonFields& fields, int vocab_size, std::vector<int>& ids) {
  const Json* value = fields.Find("eos_token_id");
  if (value == nullptr) return absl::OkStatus();
  const Json list = value->is_array() ? *value : Json::array({*value});
  for (const Json& item : list) {
    const bool valid = item.is_number_integer() && item.get<int64_t>() >= 0 && item.get<int64_t>() < vocab_size;
    if (!valid) return fields.Error("eos_token_id", absl::StrCat("ids from 0 to ", vocab_size - 1, " are needed"));
    const int id = item.get<int>();
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  }
  return absl::OkStatus();
}

absl::Status ReadTokens(const JsonFields& fields, ModelConfig& config) {
  TANDEM_RETURN_IF_ERROR(ReadTokenId(fields, "bos_token_id", config.vocab_size, config.bos_token_id));
  TANDEM_RETURN_IF_ERROR(ReadTokenId(fields, "pad_token_id", config.vocab_size, config.pad_token_id));
  return ReadEndTokens(fields, config.vocab_size, config.eos_token_ids);
}

absl::Status ReadGeneration(const std::string& text, const std::string& where, ModelConfig& config) {
  TANDEM_ASSIGN_OR_RETURN(const Json object, ParseJsonObject(text, where));
  const JsonFields fields(object, where);
  TANDEM_RETURN_IF_ERROR(ReadTokens(fields, config));
  if (fields.Has("temperature")) {
    TANDEM_ASSIGN_OR_RETURN(config.default_temperature, fields.Number("temperature", 0.0, 100.0, 1.0));
  }
  if (fields.Has("top_p")) {
    TANDEM_ASSIGN_OR_RETURN(config.default_top_p, fields.Number("top_p", 0.0, 1.0, 1.0));
  }
  if (fields.Has("top_k")) {
    TANDEM_ASSIGN_OR_RETURN(config.default_top_k, fields.Int("top_k", -1, 1 << 30, 0));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelConfig> ParseModelConfig(const std::string& config, const std::string& generation_config,
                                             const std::string& where) {
  const std::string file = where + "/config.json";
  TANDEM_ASSIGN_OR_RETURN(const Json object, ParseJsonObject(config, file));
  const JsonFields fields(object, file);
  TANDEM_RETURN_IF_ERROR(CheckArchitecture(fields));
  ModelConfig result;
  result.architecture = "LlamaForCausalLM";
  TANDEM_RETURN_IF_ERROR(ReadDimensions(fields, result));
  TANDEM_ASSIGN_OR_RETURN(result.rope_theta, RopeTheta(fields, file));
  TANDEM_RETURN_IF_ERROR(ReadDtype(fields, result));
  TANDEM_RETURN_IF_ERROR(ReadTokens(fields, result));
  result.padding_idx = result.pad_token_id;  // of this file alone
  if (!generation_config.empty()) {
    TANDEM_RETURN_IF_ERROR(ReadGeneration(generation_config, where + "/generation_config.json", result));
  }
  return result;
}

absl::StatusOr<ModelConfig> LoadModelConfig(const std::string& dir) {
  auto config = ReadFile(dir + "/config.json", kMaxConfigBytes);
  if (absl::IsNotFound(config.status())) {
    return absl::NotFoundError(absl::StrCat(config.status().message(),
                                            "; a model is a Hugging Face directory with config.json, tokenizer.json ",
                                            "and model.safetensors: check the path"));
  }
  if (!config.ok()) return config.status();
  auto generation = ReadFile(dir + "/generation_config.json", kMaxConfigBytes);
  if (!generation.ok() && !absl::IsNotFound(generation.status())) return generation.status();
  return ParseModelConfig(*config, generation.ok() ? *generation : "", dir);
}

}  // namespace tandem
