#include "services/checkpoint/model_init.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "common/base/file.h"
#include "services/checkpoint/checkpoint.h"
#include "services/checkpoint/safetensors.h"
#include "tests/checkpoint/run_check.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/testing.h"
#include "tests/testing/tiny_model.h"

namespace tandem {
namespace {

using ::tandem::testing::IsOk;
using ::tandem::testing::MakeTinyModel;
using ::tandem::testing::StatusIs;
using ::tandem::testing::TempDir;
using ::tandem::testing::TestData;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelInit Small() {
  ModelInit init;
  init.config.hidden_size = 32;
  init.config.intermediate_size = 48;
  init.config.num_hidden_layers = 1;
  init.config.num_attention_heads = 4;
  return init;
}

TEST(ModelInit, WeightsAreNormalWithTheGivenDeviationAndNormsAreOne) {
  const TempDir temp;
  ModelInit init = Small();
  init.config.vocab_size = 4000;
  init.initializer_range = 0.05;
  ASSERT_THAT(InitModel(temp.File("m"), init), IsOk());
  ASSERT_OK_AND_ASSIGN(const auto file, Safetensors::Open(temp.File("m/model.safetensors")));
  ASSERT_OK_AND_ASSIGN(const std::vector<float> embed, file->Floats("model.embed_tokens.weight"));
  double sum = 0;
  double squares = 0;
  size_t beyond_two = 0;
  for (const float x : embed) {
    sum += x;
    squares += double{x} * x;
    beyond_two += std::abs(x) > 0.1F ? 1 : 0;
  }
  const auto n = static_cast<double>(embed.size());  // 128,000: the mean's deviation is 1.4e-4
  EXPECT_NEAR(sum / n, 0.0, 6e-4);
  EXPECT_NEAR(std::sqrt(squares / n), 0.05, 5e-4);
  EXPECT_NEAR(static_cast<double>(beyond_two) / n, 0.0455, 0.003);
  ASSERT_OK_AND_ASSIGN(const std::vector<float> norm, file->Floats("model.norm.weight"));
  EXPECT_THAT(norm, ::testing::Each(1.0F));
}

TEST(ModelInit, SameSeedSameBytesOtherSeedOtherWeights) {
  const TempDir temp;
  ModelInit init = Small();
  ASSERT_THAT(InitModel(temp.File("a"), init), IsOk());
  ASSERT_THAT(InitModel(temp.File("b"), init), IsOk());
  init.seed = 1;
  ASSERT_THAT(InitModel(temp.File("c"), init), IsOk());
  ASSERT_OK_AND_ASSIGN(const std::string a, ReadFile(temp.File("a/model.safetensors")));
  ASSERT_OK_AND_ASSIGN(const std::string b, ReadFile(temp.File("b/model.safetensors")));
  ASSERT_OK_AND_ASSIGN(const std::string c, ReadFile(temp.File("c/model.safetensors")));
  EXPECT_TRUE(a == b);
  EXPECT_FALSE(a == c);
}

TEST(ModelInit, DefaultsAreThoseOfTheByteTokenizer) {
  const TempDir temp;
  ASSERT_THAT(InitModel(temp.File("m"), Small()), IsOk());
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, LoadModelConfig(temp.File("m")));
  EXPECT_EQ(config.vocab_size, 260);
  EXPECT_EQ(config.head_dim, 8);
  EXPECT_EQ(config.num_key_value_heads, 4);
  EXPECT_EQ(config.dtype, "float32");
  EXPECT_THAT(config.eos_token_ids, ElementsAre(0, 2));
  EXPECT_EQ(config.pad_token_id, 3);
}

TEST(ModelInit, AConfigTextIsTakenAsItIs) {
  const TempDir temp;
  ASSERT_OK_AND_ASSIGN(std::string text, ReadFile(TestData("checkpoint/bf16/config.json")));
  text.replace(text.find("\"vocab_size\": 37"), 16, "\"vocab_size\": 300");
  ModelInit init;
  init.config_json = text;
  ASSERT_THAT(InitModel(temp.File("m"), init), IsOk());
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, LoadModelConfig(temp.File("m")));
  EXPECT_EQ(config.vocab_size, 300);
  EXPECT_EQ(config.head_dim, 10);
  EXPECT_EQ(config.dtype, "float32");
  EXPECT_TRUE(config.tie_word_embeddings);
}

TEST(ModelInit, BadDimensionsAreRefusedAndLeaveNothingBehind) {
  const TempDir temp;
  ModelInit init = Small();
  init.config.hidden_size = 0;
  EXPECT_THAT(InitModel(temp.File("m"), init), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("hidden_size")));
  init = Small();
  init.config.vocab_size = 100;
  EXPECT_THAT(InitModel(temp.File("m"), init),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the tokenizer has 260 ids")));
  init = Small();
  init.tokenizer_dir = temp.File("nowhere");
  EXPECT_THAT(InitModel(temp.File("m"), init), StatusIs(absl::StatusCode::kNotFound, HasSubstr("nowhere")));
  EXPECT_FALSE(std::filesystem::exists(temp.File("m")));
}

TEST(ModelInit, ATokenizerDirectoryGivesTokenizerAndVocabulary) {
  const TempDir temp;
  MakeTinyModel(temp.File("first"));
  ModelInit init = Small();
  init.tokenizer_dir = temp.File("first");
  ASSERT_THAT(InitModel(temp.File("second"), init), IsOk());
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, LoadModelConfig(temp.File("second")));
  EXPECT_EQ(config.vocab_size, 260);
  EXPECT_THAT(config.eos_token_ids, ElementsAre(0, 2));
  ASSERT_OK_AND_ASSIGN(const std::string first, ReadFile(temp.File("first/tokenizer.json")));
  ASSERT_OK_AND_ASSIGN(const std::string second, ReadFile(temp.File("second/tokenizer.json")));
  EXPECT_EQ(first, second);
}

TEST(ModelInit, TransformersLoadsModelAndTokenizer) {
  const TempDir temp;
  MakeTinyModel(temp.File("m"), {.tied = false, .chat = true});
  const auto [skipped, output] = testing::RunCheckSaved(temp.File("m"));
  if (skipped) GTEST_SKIP() << output;
  EXPECT_EQ(output, "equal\n");
}

}  // namespace
}  // namespace tandem
