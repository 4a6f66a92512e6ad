#include "services/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "nlohmann/json.hpp"
#include "services/checkpoint/safetensors.h"
#include "tests/checkpoint/run_check.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/testing.h"

namespace tandem {
namespace {

using ::tandem::testing::IsOk;
using ::tandem::testing::StatusIs;
using ::tandem::testing::TempDir;
using ::tandem::testing::TestData;
using ::testing::HasSubstr;

struct Loaded {
  ModelConfig config;
  WeightManifest manifest;
  std::vector<float> weights;
};

absl::StatusOr<Loaded> Load(const std::string& dir) {
  Loaded loaded;
  TANDEM_ASSIGN_OR_RETURN(loaded.config, LoadModelConfig(dir));
  loaded.manifest = MakeWeightManifest(loaded.config);
  loaded.weights.assign(loaded.manifest.total_elements, -7.0F);  // not zero, so that gaps must be written
  TANDEM_RETURN_IF_ERROR(LoadWeights(dir, loaded.config, loaded.manifest, absl::MakeSpan(loaded.weights)));
  return loaded;
}

nlohmann::json ReadJson(const std::string& path) {
  std::ifstream in(path);
  return nlohmann::json::parse(in, nullptr, false);
}

class EveryStorage : public ::testing::TestWithParam<std::string> {
 protected:
  std::string Dir() const { return TestData("checkpoint/" + GetParam()); }
};

TEST_P(EveryStorage, EveryTensorHasTorchsSumsInItsPlace) {
  ASSERT_OK_AND_ASSIGN(const Loaded loaded, Load(Dir()));
  const nlohmann::json expected = ReadJson(Dir() + "/expected.json");
  ASSERT_EQ(expected.size(), loaded.manifest.parts.size());
  for (const TensorPart& part : loaded.manifest.parts) {
    const WeightEntry& entry = loaded.manifest.entries[part.entry];
    const bool norm = entry.shape.size() == 1;
    const int64_t k = norm ? 1 : entry.shape[0];
    const int64_t stride = norm ? 1 : entry.shape[1];
    double sum = 0;
    double position_sum = 0;
    for (int64_t i = 0; i < part.n * k; ++i) {
      const int64_t place = norm ? i : i % k * stride + part.column + i / k;
      const double value = loaded.weights[entry.offset + static_cast<uint64_t>(place)];
      sum += value;
      position_sum += value * static_cast<double>(i * 7 % 11);
    }
    ASSERT_TRUE(expected.contains(part.checkpoint_name)) << part.checkpoint_name;
    const auto& want = expected[part.checkpoint_name];
    EXPECT_NEAR(sum, want["sum"].get<double>(), 1e-9) << part.checkpoint_name;
    EXPECT_NEAR(position_sum, want["position_sum"].get<double>(), 1e-9) << part.checkpoint_name;
  }
}

TEST_P(EveryStorage, GapsBetweenEntriesAreZero) {
  ASSERT_OK_AND_ASSIGN(const Loaded loaded, Load(Dir()));
  std::vector<bool> used(loaded.weights.size(), false);
  for (const WeightEntry& entry : loaded.manifest.entries) {
    for (int64_t i = 0; i < entry.elements; ++i) used[entry.offset + static_cast<uint64_t>(i)] = true;
  }
  for (size_t i = 0; i < used.size(); ++i) {
    ASSERT_TRUE(used[i] || loaded.weights[i] == 0.0F) << i;
  }
}

TEST_P(EveryStorage, SavedWeightsLoadBitForBit) {
  ASSERT_OK_AND_ASSIGN(const Loaded loaded, Load(Dir()));
  const TempDir temp;
  for (const uint64_t shard_bytes : {uint64_t{1} << 30, uint64_t{9000}}) {
    const std::string saved = temp.File(absl::StrCat("saved-", shard_bytes));
    ASSERT_THAT(SaveCheckpoint(saved, Dir(), loaded.config, loaded.manifest, loaded.weights, shard_bytes), IsOk());
    EXPECT_EQ(std::filesystem::exists(saved + "/model.safetensors"), shard_bytes > 9000);
    ASSERT_OK_AND_ASSIGN(const Loaded again, Load(saved));
    EXPECT_EQ(again.config.dtype, "float32");
    EXPECT_EQ(again.config.eos_token_ids, loaded.config.eos_token_ids);
    ASSERT_EQ(again.weights.size(), loaded.weights.size());
    EXPECT_EQ(std::memcmp(again.weights.data(), loaded.weights.data(), loaded.weights.size() * sizeof(float)), 0);
  }
}

TEST_P(EveryStorage, SavedCheckpointLoadsInTransformersUnchanged) {
  ASSERT_OK_AND_ASSIGN(const Loaded loaded, Load(Dir()));
  const TempDir temp;
  ASSERT_THAT(SaveCheckpoint(temp.File("saved"), Dir(), loaded.config, loaded.manifest, loaded.weights, 9000), IsOk());
  const auto [skipped, output] = testing::RunCheckSaved(temp.File("saved"), Dir());
  if (skipped) GTEST_SKIP() << output;
  EXPECT_EQ(output, "equal\n");
}

INSTANTIATE_TEST_SUITE_P(Checkpoint, EveryStorage, ::testing::Values("untied", "three-shards", "bf16", "fp16"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(SaveCheckpoint, ConfigKeepsItsKeysAndOtherFilesAreCopied) {
  const TempDir temp;
  const std::string model = temp.File("model");
  std::filesystem::copy(TestData("checkpoint/bf16"), model);
  ASSERT_THAT(WriteFileAtomically(model + "/chat_template.jinja", "{{ template }}"), IsOk());
  ASSERT_THAT(WriteFileAtomically(model + "/tokenizer.json", "{}"), IsOk());
  ASSERT_OK_AND_ASSIGN(const Loaded loaded, Load(model));
  const std::string saved = temp.File("saved");
  ASSERT_THAT(SaveCheckpoint(saved, model, loaded.config, loaded.manifest, loaded.weights), IsOk());
  auto before = ReadJson(model + "/config.json");
  before["torch_dtype"] = "float32";
  EXPECT_EQ(ReadJson(saved + "/config.json"), before);
  for (const char* name : {"/chat_template.jinja", "/tokenizer.json", "/generation_config.json"}) {
    ASSERT_OK_AND_ASSIGN(const std::string original, ReadFile(model + name));
    ASSERT_OK_AND_ASSIGN(const std::string copy, ReadFile(saved + name));
    EXPECT_EQ(copy, original) << name;
  }
}

TEST(SaveCheckpoint, AnExistingDirectoryIsRefusedAndLeftAsItWas) {
  const TempDir temp;
  ASSERT_OK_AND_ASSIGN(const Loaded loaded, Load(TestData("checkpoint/bf16")));
  ASSERT_THAT(WriteFileAtomically(temp.File("mine"), "x"), IsOk());
  EXPECT_THAT(SaveCheckpoint(temp.path(), TestData("checkpoint/bf16"), loaded.config, loaded.manifest, loaded.weights),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr(temp.path())));
  EXPECT_TRUE(std::filesystem::exists(temp.File("mine")));
}

TEST(SaveCheckpoint, AFailedWriteIsReportedAndLeavesNothingBehind) {
  ASSERT_OK_AND_ASSIGN(const Loaded loaded, Load(TestData("checkpoint/untied")));
  const TempDir temp;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{20000, before.rlim_max};  // like a disk that fills up in the middle of the weights
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status saved =
      SaveCheckpoint(temp.File("saved"), TestData("checkpoint/untied"), loaded.config, loaded.manifest, loaded.weights);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_FALSE(saved.ok());
  EXPECT_THAT(std::string(saved.message()), HasSubstr("model.safetensors: File too large"));
  EXPECT_FALSE(std::filesystem::exists(temp.File("saved")));
}

TEST(LoadWeights, ProgressIsCalledAtLeastOncePerTensor) {
  const std::string dir = TestData("checkpoint/three-shards");
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, LoadModelConfig(dir));
  const WeightManifest manifest = MakeWeightManifest(config);
  std::vector<float> weights(manifest.total_elements);
  size_t calls = 0;
  ASSERT_THAT(LoadWeights(dir, config, manifest, absl::MakeSpan(weights), [&calls] { ++calls; }), IsOk());
  EXPECT_GE(calls, manifest.parts.size());
}

// The oracle's checkpoints against its own files: every fp32 tensor comes back from a save with the same bytes.
TEST(SaveCheckpoint, TensorsOfTheOracleComeBackByteForByte) {
  const char* oracle = std::getenv("TANDEM_ORACLE_DIR");
  if (oracle == nullptr) GTEST_SKIP() << "TANDEM_ORACLE_DIR is not set";
  const std::string model = std::string(oracle) + "/models/llama-tied";
  ASSERT_OK_AND_ASSIGN(const Loaded loaded, Load(model));
  const TempDir temp;
  ASSERT_THAT(SaveCheckpoint(temp.File("saved"), model, loaded.config, loaded.manifest, loaded.weights), IsOk());
  ASSERT_OK_AND_ASSIGN(const auto original, Safetensors::Open(model + "/model.safetensors"));
  ASSERT_OK_AND_ASSIGN(const auto saved, Safetensors::Open(temp.File("saved/model.safetensors")));
  ASSERT_EQ(original->tensors().size(), saved->tensors().size());
  for (const TensorInfo& tensor : original->tensors()) {
    ASSERT_NE(saved->Find(tensor.name), nullptr) << tensor.name;
    EXPECT_EQ(original->Bytes(tensor), saved->Bytes(*saved->Find(tensor.name))) << tensor.name;
  }
}

}  // namespace
}  // namespace tandem
