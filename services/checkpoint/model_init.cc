#include "services/checkpoint/model_init.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <numbers>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/philox.h"
#include "common/base/status.h"
#include "services/checkpoint/byte_tokenizer.h"
#include "services/checkpoint/json_fields.h"
#include "services/checkpoint/safetensors_writer.h"
#include "services/checkpoint/tokenizer_files.h"
#include "services/checkpoint/weight_manifest.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

// Four independent standard normal numbers of (seed, tensor, quad): Box and Muller's transform of one Philox draw.
void Normals(uint64_t seed, uint64_t tensor, uint64_t quad, double out[4]) {
  const auto words = Philox(seed, quad, tensor);
  for (int pair = 0; pair < 2; ++pair) {
    const double radius = std::sqrt(-2.0 * std::log((words[2 * pair] + 0.5) * 0x1p-32));
    const double angle = 2.0 * std::numbers::pi * words[2 * pair + 1] * 0x1p-32;
    out[2 * pair] = radius * std::cos(angle);
    out[2 * pair + 1] = radius * std::sin(angle);
  }
}

absl::Status WriteMatrix(uint64_t seed, uint64_t tensor, int64_t elements, double deviation,
                         SafetensorsWriter& writer) {
  constexpr int64_t kChunk = 4096;
  std::vector<float> values;
  for (int64_t begin = 0; begin < elements; begin += kChunk) {
    const int64_t end = std::min(elements, begin + kChunk);
    values.clear();
    for (int64_t quad = begin / 4; quad * 4 < end; ++quad) {
      double normals[4];
      Normals(seed, tensor, static_cast<uint64_t>(quad), normals);
      for (const double normal : normals) values.push_back(static_cast<float>(deviation * normal));
    }
    values.resize(static_cast<size_t>(end - begin));
    TANDEM_RETURN_IF_ERROR(writer.Append(values));
  }
  return absl::OkStatus();
}

absl::Status WriteWeights(const std::string& path, const ModelConfig& config, double deviation, uint64_t seed) {
  const WeightManifest manifest = MakeWeightManifest(config);
  std::vector<SafetensorsWriter::Tensor> tensors;
  for (const TensorPart& part : manifest.parts) {
    const WeightEntry& entry = manifest.entries[part.entry];
    tensors.push_back({part.checkpoint_name, entry.shape.size() == 1 ? std::vector<int64_t>{part.n}
                                                                     : std::vector<int64_t>{part.n, entry.shape[0]}});
  }
  auto writer = SafetensorsWriter::Create(path, tensors);
  if (!writer.ok()) return writer.status();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& shape = tensors[i].shape;
    if (shape.size() == 1) {
      TANDEM_RETURN_IF_ERROR((*writer)->Append(std::vector<float>(static_cast<size_t>(shape[0]), 1.0F)));
    } else {
      TANDEM_RETURN_IF_ERROR(WriteMatrix(seed, i, shape[0] * shape[1], deviation, **writer));
    }
  }
  return (*writer)->Finish();
}

// Highest id + 1 of DIR/tokenizer.json.
absl::StatusOr<int> TokenizerVocab(const std::string& dir) {
  const std::string path = dir + "/tokenizer.json";
  TANDEM_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  TANDEM_ASSIGN_OR_RETURN(const Json object, ParseJsonObject(text, path));
  int64_t highest = -1;
  const auto take = [&highest](const Json& id) {
    if (id.is_number_integer()) highest = std::max(highest, id.get<int64_t>());
  };
  if (object.contains("model") && object["model"].is_object() && object["model"].contains("vocab")) {
    for (const auto& [token, id] : object["model"]["vocab"].items()) take(id);
  }
  if (object.contains("added_tokens")) {
    for (const Json& token : object["added_tokens"]) {
      if (token.is_object() && token.contains("id")) take(token["id"]);
    }
  }
  if (highest < 0 || highest >= 1 << 22) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": model.vocab has no usable ids (highest: ", highest, ")"));
  }
  return static_cast<int>(highest + 1);
}

ModelConfig WithDefaults(const ModelInit& init, int tokenizer_vocab) {
  ModelConfig config = init.config;
  config.architecture = "LlamaForCausalLM";
  config.dtype = "float32";
  if (config.num_key_value_heads == 0) config.num_key_value_heads = config.num_attention_heads;
  if (config.head_dim == 0 && config.num_attention_heads > 0) {
    config.head_dim = config.hidden_size / config.num_attention_heads;
  }
  if (config.vocab_size == 0) config.vocab_size = tokenizer_vocab;
  if (config.max_position_embeddings == 0) config.max_position_embeddings = 2048;
  if (init.tokenizer_dir.empty()) {
    if (config.eos_token_ids.empty()) config.eos_token_ids = {kByteEndOfText, kByteImEnd};
    if (!config.pad_token_id.has_value()) config.pad_token_id = kBytePad;
  }
  return config;
}

struct NewModel {
  ModelConfig config;
  std::string config_json;
  double deviation = 0;
};

// Checks everything before anything is written.
absl::StatusOr<NewModel> Resolve(const ModelInit& init) {
  int vocab = kByteTokenizerVocab;
  if (!init.tokenizer_dir.empty()) {
    TANDEM_ASSIGN_OR_RETURN(vocab, TokenizerVocab(init.tokenizer_dir));
  }
  NewModel model;
  const std::string text = init.config_json.empty() ? ModelConfigToJson(WithDefaults(init, vocab)) : init.config_json;
  TANDEM_ASSIGN_OR_RETURN(model.config, ParseModelConfig(text, "", "new model"));
  TANDEM_ASSIGN_OR_RETURN(Json json, ParseJsonObject(text, "new model/config.json"));
  if (json.contains("torch_dtype")) json["torch_dtype"] = "float32";
  json["dtype"] = "float32";
  const JsonFields fields(json, "new model/config.json");
  TANDEM_ASSIGN_OR_RETURN(model.deviation, fields.Number("initializer_range", 0.0, 10.0, init.initializer_range));
  json["initializer_range"] = model.deviation;
  if (model.config.vocab_size < vocab) {
    return fields.Error("vocab_size", absl::StrCat("the tokenizer has ", vocab, " ids; give it at least as many"));
  }
  model.config_json = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  return model;
}

absl::Status Fill(const std::string& dir, const ModelInit& init, const NewModel& model) {
  if (init.tokenizer_dir.empty()) {
    ModelConfig generation = model.config;
    generation.eos_token_ids = {kByteEndOfText, kByteImEnd};
    generation.pad_token_id = kBytePad;
    TANDEM_RETURN_IF_ERROR(WriteFileAtomically(dir + "/tokenizer.json", ByteTokenizerJson()));
    TANDEM_RETURN_IF_ERROR(WriteFileAtomically(dir + "/tokenizer_config.json", ByteTokenizerConfigJson(init.chat)));
    TANDEM_RETURN_IF_ERROR(WriteFileAtomically(dir + "/generation_config.json", GenerationConfigToJson(generation)));
  } else {
    TANDEM_RETURN_IF_ERROR(CopyTokenizerFiles(init.tokenizer_dir, dir));
  }
  TANDEM_RETURN_IF_ERROR(WriteFileAtomically(dir + "/config.json", model.config_json));
  TANDEM_RETURN_IF_ERROR(WriteWeights(dir + "/model.safetensors", model.config, model.deviation, init.seed));
  return SyncDirectory(dir);
}

}  // namespace

absl::Status InitModel(const std::string& dir, const ModelInit& init) {
  TANDEM_ASSIGN_OR_RETURN(const NewModel model, Resolve(init));
  if (mkdir(dir.c_str(), 0755) != 0) return ErrnoStatus(errno, "cannot make the model directory", dir);
  absl::Status made = Fill(dir, init, model);
  if (!made.ok()) {
    std::error_code ignored;
    std::filesystem::remove_all(dir, ignored);
  }
  return made;
}

}  // namespace tandem
