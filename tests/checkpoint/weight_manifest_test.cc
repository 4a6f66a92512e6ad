#include "services/checkpoint/weight_manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/testing/status_matchers.h"
#include "tests/testing/testing.h"

namespace tandem {
namespace {

using ::tandem::testing::StatusIs;
using ::tandem::testing::TestData;
using ::testing::ElementsAre;

ModelConfig Config(bool tied) {
  ModelConfig config;
  config.architecture = "LlamaForCausalLM";
  config.hidden_size = 12;
  config.intermediate_size = 20;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 3;
  config.num_key_value_heads = 1;
  config.head_dim = 6;
  config.vocab_size = 31;
  config.max_position_embeddings = 64;
  config.tie_word_embeddings = tied;
  config.dtype = "float32";
  return config;
}

class ManifestTest : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(TiedAndUntied, ManifestTest, ::testing::Bool());

TEST_P(ManifestTest, EntriesAreAlignedAscendingAndDoNotOverlap) {
  const WeightManifest manifest = MakeWeightManifest(Config(GetParam()));
  uint64_t end = 0;
  for (const WeightEntry& entry : manifest.entries) {
    EXPECT_EQ(entry.offset % 64, 0U) << entry.name;
    EXPECT_GE(entry.offset, end) << entry.name;
    EXPECT_LT(entry.offset - end, 64U) << entry.name;
    int64_t elements = 1;
    for (const int64_t dimension : entry.shape) elements *= dimension;
    EXPECT_EQ(entry.elements, elements);
    EXPECT_EQ(entry.decay, entry.shape.size() == 2) << entry.name;
    end = entry.offset + static_cast<uint64_t>(entry.elements);
  }
  EXPECT_GE(manifest.total_elements, end);
  EXPECT_EQ(manifest.bytes(), manifest.total_elements * 4);
}

TEST_P(ManifestTest, PartsCoverEveryColumnOfEveryEntryOnceAndNameEveryTensorOnce) {
  const WeightManifest manifest = MakeWeightManifest(Config(GetParam()));
  std::vector<int64_t> covered(manifest.entries.size(), 0);
  std::set<std::string> names;
  for (const TensorPart& part : manifest.parts) {
    EXPECT_EQ(part.column, covered[part.entry]) << part.checkpoint_name;
    covered[part.entry] += part.n;
    EXPECT_TRUE(names.insert(part.checkpoint_name).second) << part.checkpoint_name;
  }
  for (size_t i = 0; i < covered.size(); ++i) EXPECT_EQ(covered[i], manifest.entries[i].shape.back());
  EXPECT_EQ(names.size(), 2 * 9U + (GetParam() ? 2 : 3));
  EXPECT_EQ(names.count("lm_head.weight"), GetParam() ? 0U : 1U);
}

TEST(WeightManifest, ShapesAreThoseOfTheHeader) {
  const WeightManifest manifest = MakeWeightManifest(Config(false));
  EXPECT_THAT(manifest.at("embed").shape, ElementsAre(12, 31));
  EXPECT_THAT(manifest.at("layers.1.norm1").shape, ElementsAre(12));
  EXPECT_THAT(manifest.at("layers.1.qkv").shape, ElementsAre(12, 30));
  EXPECT_THAT(manifest.at("layers.1.o").shape, ElementsAre(18, 12));
  EXPECT_THAT(manifest.at("layers.1.gate_up").shape, ElementsAre(12, 40));
  EXPECT_THAT(manifest.at("layers.1.down").shape, ElementsAre(20, 12));
  EXPECT_THAT(manifest.at("norm").shape, ElementsAre(12));
  EXPECT_THAT(manifest.at("head").shape, ElementsAre(12, 31));
}

TEST(WeightManifest, TheHashChangesWithTheLayoutAndOnlyWithIt) {
  const std::string hash = MakeWeightManifest(Config(true)).layout_hash;
  EXPECT_EQ(hash.size(), 16U);
  ModelConfig same = Config(true);
  same.rope_theta = 5.0;
  EXPECT_EQ(MakeWeightManifest(same).layout_hash, hash);
  EXPECT_NE(MakeWeightManifest(Config(false)).layout_hash, hash);
  ModelConfig wider = Config(true);
  wider.intermediate_size = 21;
  EXPECT_NE(MakeWeightManifest(wider).layout_hash, hash);
}

TEST(WeightManifestDeathTest, AnUnknownEntryIsABrokenInvariant) {
  EXPECT_DEATH(MakeWeightManifest(Config(true)).at("embed"), "embed");
}

TEST(ServedModel, ItsTextReadsBackTheSame) {
  ServedModel model;
  model.name = "job-3";
  model.model_dir = "/models/\"odd\" \xC3\xA9";
  model.config = Config(true);
  model.config.eos_token_ids = {2, 5};
  model.config.default_temperature = 0.5;
  model.layout_hash = MakeWeightManifest(model.config).layout_hash;
  const std::string text = ServedModelToJson(model);
  ASSERT_OK_AND_ASSIGN(const ServedModel again, ServedModelFromJson(text));
  EXPECT_EQ(again.name, model.name);
  EXPECT_EQ(again.model_dir, model.model_dir);
  EXPECT_EQ(MakeWeightManifest(again.config).layout_hash, model.layout_hash);
  EXPECT_EQ(again.config.eos_token_ids, model.config.eos_token_ids);
  EXPECT_EQ(again.config.default_temperature, 0.5);
  EXPECT_EQ(ServedModelToJson(again), text);
  EXPECT_LT(text.size(), 4096U);
}

TEST(ServedModel, BrokenTextIsRefused) {
  for (const char* text : {"", "[]", "{}", "{\"config\": \"{}\"}", "{\"config\": 3}"}) {
    EXPECT_THAT(ServedModelFromJson(text),
                StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("manifest of the set")))
        << text;
  }
}

}  // namespace
}  // namespace tandem
