#include "services/checkpoint/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"
#include "tests/testing/status_matchers.h"
#include "tests/testing/testing.h"

namespace tandem {
namespace {

using ::tandem::testing::IsOk;
using ::tandem::testing::StatusIs;
using ::tandem::testing::TestData;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

// SmolLM2-135M's config.json in the dialect of transformers 4.
Json Config() {
  return Json::parse(R"({
    "architectures": ["LlamaForCausalLM"], "attention_bias": false, "bos_token_id": 1, "eos_token_id": 2,
    "hidden_act": "silu", "hidden_size": 576, "intermediate_size": 1536, "max_position_embeddings": 8192,
    "mlp_bias": false, "model_type": "llama", "num_attention_heads": 9, "num_hidden_layers": 30,
    "num_key_value_heads": 3, "pad_token_id": 2, "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 100000,
    "tie_word_embeddings": true, "torch_dtype": "bfloat16", "vocab_size": 49152})");
}

absl::StatusOr<ModelConfig> Parse(const Json& config, const std::string& generation = "") {
  return ParseModelConfig(config.dump(), generation, "dir");
}

TEST(ModelConfig, TheOldDialectIsRead) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, Parse(Config()));
  EXPECT_EQ(config.architecture, "LlamaForCausalLM");
  EXPECT_EQ(config.hidden_size, 576);
  EXPECT_EQ(config.intermediate_size, 1536);
  EXPECT_EQ(config.num_hidden_layers, 30);
  EXPECT_EQ(config.num_attention_heads, 9);
  EXPECT_EQ(config.num_key_value_heads, 3);
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.vocab_size, 49152);
  EXPECT_EQ(config.max_position_embeddings, 8192);
  EXPECT_EQ(config.rms_norm_eps, 1e-5F);
  EXPECT_EQ(config.rope_theta, 100000.0);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_EQ(config.dtype, "bfloat16");
  EXPECT_EQ(config.bos_token_id, 1);
  EXPECT_EQ(config.pad_token_id, 2);
  EXPECT_THAT(config.eos_token_ids, ElementsAre(2));
}

TEST(ModelConfig, TheNewDialectIsRead) {
  Json json = Config();
  json.erase("torch_dtype");
  json.erase("rope_theta");
  json.erase("rope_scaling");
  json["dtype"] = "float16";
  json["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 5000.5}};
  json["head_dim"] = 32;
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, Parse(json));
  EXPECT_EQ(config.dtype, "float16");
  EXPECT_EQ(config.rope_theta, 5000.5);
  EXPECT_EQ(config.head_dim, 32);
  EXPECT_EQ(config.qkv_size(), 32 * 15);
}

TEST(ModelConfig, AbsentFieldsHaveTheDefaultsOfTransformers) {
  Json json = Config();
  for (const char* field : {"num_key_value_heads", "rms_norm_eps", "rope_theta", "tie_word_embeddings", "torch_dtype",
                            "bos_token_id", "eos_token_id", "pad_token_id", "max_position_embeddings", "hidden_act"}) {
    json.erase(field);
  }
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, Parse(json));
  EXPECT_EQ(config.num_key_value_heads, 9);
  EXPECT_EQ(config.rms_norm_eps, 1e-6F);
  EXPECT_EQ(config.rope_theta, 10000.0);
  EXPECT_FALSE(config.tie_word_embeddings);
  EXPECT_EQ(config.dtype, "float32");
  EXPECT_EQ(config.max_position_embeddings, 2048);
  EXPECT_EQ(config.bos_token_id, std::nullopt);
  EXPECT_TRUE(config.eos_token_ids.empty());
}

TEST(ModelConfig, EndTokensAreTheUnionAndSamplingDefaultsComeFromGenerationConfig) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig config,
                       Parse(Config(), R"({"eos_token_id": [7, 2], "temperature": 0.6, "top_p": 0.9, "top_k": 40,
                                           "pad_token_id": null, "transformers_version": "5.24.0"})"));
  EXPECT_THAT(config.eos_token_ids, ElementsAre(2, 7));
  EXPECT_EQ(config.pad_token_id, 2);
  EXPECT_EQ(config.default_temperature, 0.6);
  EXPECT_EQ(config.default_top_p, 0.9);
  EXPECT_EQ(config.default_top_k, 40);
}

struct Refusal {
  std::string name, field;
  Json value;  // discarded: the field is removed
  std::string error;
};

class RefusedConfig : public ::testing::TestWithParam<Refusal> {};

TEST_P(RefusedConfig, NamesFileFieldAndReason) {
  Json json = Config();
  if (GetParam().value.is_discarded()) {
    json.erase(GetParam().field);
  } else {
    json[GetParam().field] = GetParam().value;
  }
  EXPECT_THAT(Parse(json),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("dir/config.json"), HasSubstr(GetParam().field), HasSubstr(GetParam().error))));
}

const Json kRemoved = Json(Json::value_t::discarded);

INSTANTIATE_TEST_SUITE_P(
    ModelConfig, RefusedConfig,
    ::testing::Values(
        Refusal{"OtherArchitecture", "architectures", {"Qwen2ForCausalLM"}, "Qwen2ForCausalLM"},
        Refusal{"TwoArchitectures", "architectures", {"LlamaForCausalLM", "X"}, "only LlamaForCausalLM"},
        Refusal{"OtherType", "model_type", "qwen3", "\"qwen3\": only llama"},
        Refusal{"OldRopeScaling", "rope_scaling", {{"type", "linear"}, {"factor", 2.0}}, "rope type \"linear\""},
        Refusal{"Llama3Rope", "rope_scaling", {{"rope_type", "llama3"}, {"factor", 8.0}}, "rope type \"llama3\""},
        Refusal{"YarnRope", "rope_parameters", {{"rope_type", "yarn"}, {"rope_theta", 1e4}}, "rope type \"yarn\""},
        Refusal{"PartialRope", "rope_parameters", {{"partial_rotary_factor", 0.5}}, "partial_rotary_factor"},
        Refusal{"RopeIsText", "rope_scaling", "linear", "an object or null"},
        Refusal{"RopeThetaText", "rope_theta", "big", "a number"},
        Refusal{"RopeThetaNegative", "rope_theta", -1, "a number from 1"},
        Refusal{"AttentionBias", "attention_bias", true, "biases"}, Refusal{"MlpBias", "mlp_bias", true, "biases"},
        Refusal{"Activation", "hidden_act", "gelu", "only silu"},
        Refusal{"Quantised", "quantization_config", {{"bits", 4}}, "quantised"},
        Refusal{"HiddenMissing", "hidden_size", kRemoved, "missing"},
        Refusal{"HiddenZero", "hidden_size", 0, "from 1 to"},
        Refusal{"HiddenNegative", "hidden_size", -576, "from 1 to"},
        Refusal{"HiddenHuge", "hidden_size", 18446744073709551615ULL, "from 1 to"},
        Refusal{"HiddenFraction", "hidden_size", 576.5, "whole number"},
        Refusal{"HiddenText", "hidden_size", "576", "whole number"},
        Refusal{"HiddenNotDivisible", "hidden_size", 577, "multiple of num_attention_heads"},
        Refusal{"LayersMissing", "num_hidden_layers", kRemoved, "missing"},
        Refusal{"LayersMany", "num_hidden_layers", 100000, "from 1 to 1024"},
        Refusal{"HeadsNotDivisible", "num_key_value_heads", 4, "must divide num_attention_heads"},
        Refusal{"HeadDimOdd", "head_dim", 33, "even"}, Refusal{"HeadDimHuge", "head_dim", 4096, "from 2 to 1024"},
        Refusal{"VocabMissing", "vocab_size", kRemoved, "missing"},
        Refusal{"VocabHuge", "vocab_size", 1 << 30, "from 1 to"},
        Refusal{"EpsNegative", "rms_norm_eps", -1.0, "a number from 0"},
        Refusal{"TieIsNumber", "tie_word_embeddings", 1, "true or false"},
        Refusal{"DtypeOther", "torch_dtype", "float64", "bfloat16 or float16"},
        Refusal{"EosBeyondVocab", "eos_token_id", 49152, "ids from 0 to 49151"},
        Refusal{"EosListOfText", "eos_token_id", {"</s>"}, "ids from 0 to"},
        Refusal{"BosNegative", "bos_token_id", -2, "from -1 to 49151"}),
    [](const auto& info) { return info.param.name; });

TEST(ModelConfig, TextThatIsNotAnObjectIsRefused) {
  for (const char* text : {"", "{", "[]", "3", "\"x\"", "{\"a\": NaN}", "\xFF"}) {
    EXPECT_THAT(ParseModelConfig(text, "", "dir"),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("dir/config.json")))
        << text;
    if (*text == '\0') continue;  // no generation_config.json
    EXPECT_THAT(ParseModelConfig(Config().dump(), text, "dir"),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("dir/generation_config.json")))
        << text;
  }
}

TEST(ModelConfig, AMissingDirectoryIsNotFoundWithTheRemedy) {
  EXPECT_THAT(LoadModelConfig("/nowhere/model"),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("/nowhere/model/config.json"), HasSubstr("check the path"))));
}

TEST(ModelConfig, ItsOwnTextReadsBackTheSame) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, LoadModelConfig(TestData("checkpoint/fp16")));
  EXPECT_THAT(config.eos_token_ids, ElementsAre(2, 5));
  const std::string text = ModelConfigToJson(config);
  const std::string generation = GenerationConfigToJson(config);
  EXPECT_THAT(text, HasSubstr("\"rms_norm_eps\": 1e-05"));
  ASSERT_OK_AND_ASSIGN(const ModelConfig again, ParseModelConfig(text, generation, "again"));
  EXPECT_EQ(ModelConfigToJson(again), text);
  EXPECT_EQ(GenerationConfigToJson(again), generation);
  EXPECT_EQ(again.rms_norm_eps, config.rms_norm_eps);
  EXPECT_EQ(again.head_dim, 10);
}

}  // namespace
}  // namespace tandem
