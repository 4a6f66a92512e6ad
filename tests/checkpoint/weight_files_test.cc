#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "common/base/file.h"
#include "nlohmann/json.hpp"
#include "services/checkpoint/checkpoint.h"
#include "services/checkpoint/safetensors.h"
#include "services/checkpoint/safetensors_writer.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/testing.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using ::tandem::testing::IsOk;
using ::tandem::testing::StatusIs;
using ::tandem::testing::TempDir;
using ::tandem::testing::TestData;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kIndex[] = "model.safetensors.index.json";

// A copy of a checkpoint that a test may break.
class WeightFilesTest : public ::testing::Test {
 protected:
  void Copy(const std::string& name) { fs::copy(TestData("checkpoint/" + name), dir_); }
  absl::StatusOr<uint64_t> Check() const {
    auto config = LoadModelConfig(dir_);
    if (!config.ok()) return config.status();
    return CheckWeightFiles(dir_, MakeWeightManifest(*config));
  }
  // The same for LoadWeights, which must refuse before it writes anything.
  absl::Status Load() const {
    auto config = LoadModelConfig(dir_);
    if (!config.ok()) return config.status();
    const WeightManifest manifest = MakeWeightManifest(*config);
    std::vector<float> weights(manifest.total_elements, 3.0F);
    absl::Status status = LoadWeights(dir_, *config, manifest, absl::MakeSpan(weights));
    if (!status.ok()) {
      EXPECT_THAT(weights, ::testing::Each(3.0F));
    }
    return status;
  }
  void Replace(const std::string& file, const std::string& from, const std::string& to) const {
    auto text = ReadFile(dir_ + "/" + file);
    ASSERT_TRUE(text.ok());
    const size_t at = text->find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text->replace(at, from.size(), to);
    ASSERT_THAT(WriteFileAtomically(dir_ + "/" + file, *text), IsOk());
  }
  // Rewrites model.safetensors without one tensor, and with one more.
  void Rewrite(const std::string& without, const std::string& extra) const {
    auto file = Safetensors::Open(dir_ + "/model.safetensors");
    ASSERT_THAT(file, IsOk());
    std::vector<SafetensorsWriter::Tensor> tensors;
    std::vector<float> values;
    for (const TensorInfo& tensor : (*file)->tensors()) {
      if (tensor.name == without) continue;
      tensors.push_back({tensor.name, tensor.shape});
      auto floats = (*file)->Floats(tensor.name);
      ASSERT_THAT(floats, IsOk());
      values.insert(values.end(), floats->begin(), floats->end());
    }
    if (!extra.empty()) {
      tensors.push_back({extra, {2}});
      values.insert(values.end(), {1.0F, 2.0F});
    }
    fs::remove(dir_ + "/model.safetensors");
    auto writer = SafetensorsWriter::Create(dir_ + "/model.safetensors", tensors);
    ASSERT_THAT(writer, IsOk());
    ASSERT_THAT((*writer)->Append(values), IsOk());
    ASSERT_THAT((*writer)->Finish(), IsOk());
  }

  TempDir temp_;
  std::string dir_ = temp_.File("model");
};

TEST_F(WeightFilesTest, CheckSaysTheBytesOfTheTensors) {
  Copy("bf16");
  const nlohmann::json expected = nlohmann::json::parse(std::ifstream(dir_ + "/expected.json"));
  uint64_t elements = 0;
  for (const auto& tensor : expected) {
    uint64_t n = 1;
    for (const uint64_t dimension : tensor["shape"]) n *= dimension;
    elements += n;
  }
  ASSERT_OK_AND_ASSIGN(const uint64_t bytes, Check());
  EXPECT_EQ(bytes, elements * 2);
}

TEST_F(WeightFilesTest, NoWeightsIsNotFoundAndSaysWhatIsLookedFor) {
  Copy("bf16");
  fs::remove(dir_ + "/model.safetensors");
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kNotFound, AllOf(HasSubstr(dir_), HasSubstr("model.safetensors"))));
}

TEST_F(WeightFilesTest, AMissingTensorIsNamed) {
  Copy("untied");
  Rewrite("model.layers.1.mlp.up_proj.weight", "");
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("\"model.layers.1.mlp.up_proj.weight\" is missing")));
}

TEST_F(WeightFilesTest, AForeignTensorIsNamed) {
  Copy("untied");
  Rewrite("", "model.layers.0.self_attn.q_proj.bias");
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("\"model.layers.0.self_attn.q_proj.bias\" is not part")));
}

TEST_F(WeightFilesTest, RotaryFrequenciesOfOldCheckpointsAreIgnored) {
  Copy("untied");
  Rewrite("", "model.layers.0.self_attn.rotary_emb.inv_freq");
  EXPECT_THAT(Load(), IsOk());
}

TEST_F(WeightFilesTest, AWrongShapeNamesFileTensorBothShapes) {
  Copy("untied");
  Replace("config.json", "\"intermediate_size\": 40", "\"intermediate_size\": 41");
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kInvalidArgument,
                               AllOf(HasSubstr("model.safetensors"), HasSubstr("mlp.gate_proj.weight"),
                                     HasSubstr("[40, 24]"), HasSubstr("[41, 24]"))));
}

TEST_F(WeightFilesTest, AWrongDtypeIsNamed) {
  Copy("bf16");
  Replace("model.safetensors", "\"BF16\"", "\"I16\" ");
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is I16; F32, BF16 or F16 is needed")));
}

TEST_F(WeightFilesTest, AMissingShardIsNamed) {
  Copy("three-shards");
  fs::remove(dir_ + "/model-00002-of-00003.safetensors");
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("model-00002-of-00003.safetensors")));
}

TEST_F(WeightFilesTest, ATruncatedShardIsNamed) {
  Copy("three-shards");
  const std::string shard = dir_ + "/model-00003-of-00003.safetensors";
  fs::resize_file(shard, fs::file_size(shard) - 1);
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr(shard), HasSubstr("truncated"))));
}

TEST_F(WeightFilesTest, ATensorInTwoShardsIsRefused) {
  Copy("three-shards");
  fs::copy_file(dir_ + "/model-00001-of-00003.safetensors", dir_ + "/copy.safetensors");
  Replace(kIndex, "{\n  \"lm_head.weight\"", "{\n  \"x\": \"copy.safetensors\",\n  \"lm_head.weight\"");
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is in both")));
}

TEST_F(WeightFilesTest, AnIndexCannotReachOutsideItsDirectory) {
  for (const char* name : {"../bf16/model.safetensors", "/etc/x.safetensors", "a/b.safetensors", "..", "", "passwd"}) {
    fs::remove_all(dir_);
    Copy("three-shards");
    Replace(kIndex, "model-00001-of-00003.safetensors", name);
    EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kInvalidArgument,
                                 AllOf(HasSubstr(kIndex), HasSubstr("not the name of a .safetensors file"))))
        << name;
  }
}

TEST_F(WeightFilesTest, ABrokenIndexIsRefused) {
  Copy("three-shards");
  for (const char* text :
       {"", "[]", "{}", "{\"weight_map\": 3}", "{\"weight_map\": {}}", "{\"weight_map\": {\"a\": 1}}"}) {
    ASSERT_THAT(WriteFileAtomically(dir_ + "/" + kIndex, text), IsOk());
    EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(kIndex))) << text;
  }
}

}  // namespace
}  // namespace tandem
