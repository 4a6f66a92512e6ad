// Agreement with transformers: every directory of reference values that there is. The committed one is always tested;
// TANDEM_ORACLE_DIR adds the models of a fresh run of the reference scripts, and SmolLM2.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "services/checkpoint/safetensors.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/testing.h"
#include "tests/transformer/model_run.h"

namespace tandem::testing {
namespace {

constexpr float kValueTolerance = 2e-4F;
constexpr double kGradientTolerance = 5e-5;
constexpr double kParameterTolerance = 5e-6;

std::string OracleDir() {
  const char* dir = std::getenv("TANDEM_ORACLE_DIR");
  return dir ? dir : "";
}

struct ReferencePaths {
  std::string name;
  std::string model_dir;
  std::string values;  // without .json or .safetensors
};

// Models with reference values whose architecture is supported.
std::vector<ReferencePaths> References() {
  std::vector<ReferencePaths> found = {
      {"Committed", TestData("transformer/tiny-untied"), TestData("transformer/tiny-untied-reference")}};
  std::error_code ignored;
  if (OracleDir().empty()) return found;
  for (const auto& entry : std::filesystem::directory_iterator(OracleDir() + "/models", ignored)) {
    const std::string name = entry.path().filename();
    if (!LoadModelConfig(entry.path()).ok()) continue;
    std::string test_name = name;
    std::replace_if(
        test_name.begin(), test_name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
    found.push_back({test_name, entry.path(), OracleDir() + "/reference/" + name});
  }
  return found;
}

nlohmann::json ReadJson(const std::string& path) {
  std::ifstream in(path);
  return nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
}

class ReferenceTest : public ::testing::TestWithParam<ReferencePaths> {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(values_, Safetensors::Open(GetParam().values + ".safetensors"));
    json_ = ReadJson(GetParam().values + ".json");
    ASSERT_TRUE(json_.is_object());
    model_ = std::make_unique<ModelRun>(GetParam().model_dir, MakeCpuKernels(2));
    const std::vector<int32_t> ids = Ints("input_ids");
    const std::vector<int32_t> bounds = Ints("cu_seqlens");
    for (size_t s = 0; s + 1 < bounds.size(); ++s) {
      sequences_.emplace_back(ids.begin() + bounds[s], ids.begin() + bounds[s + 1]);
    }
  }

  std::vector<int32_t> Ints(const std::string& name) {
    auto ints = values_->Ints(name);
    EXPECT_TRUE(ints.ok()) << ints.status();
    return *ints;
  }
  std::vector<float> Floats(const std::string& name) {
    auto floats = values_->Floats(name);
    EXPECT_TRUE(floats.ok()) << floats.status();
    return *floats;
  }

  // The loss of the reference: mean cross-entropy of the completions. Its gradient is that of sum weight * logprob.
  Pack SftPack() {
    const std::vector<int32_t> prompts = Ints("prompt_lens");
    Pack pack;
    for (size_t s = 0; s < sequences_.size(); ++s) pack.Add(sequences_[s], prompts[s]);
    return pack;
  }
  static std::vector<float> SftWeights(const Pack& pack) {
    return std::vector<float>(pack.rows.size(), -1.0F / static_cast<float>(pack.rows.size()));
  }

  const WeightManifest& manifest() const { return model_->transformer().manifest(); }

  std::unique_ptr<Safetensors> values_;
  nlohmann::json json_;
  std::unique_ptr<ModelRun> model_;
  std::vector<std::vector<int>> sequences_;
};

TEST_P(ReferenceTest, LogitsAgree) {
  const int vocab = model_->transformer().config().vocab_size;
  for (size_t s = 0; s < sequences_.size(); ++s) {
    const std::vector<float> expected = Floats("logits." + std::to_string(s));
    const int first = json_["logits_first_position"][s];
    const std::vector<float> logits = model_->PagedLogits(sequences_[s], 48);
    ASSERT_EQ(expected.size(), logits.size() - static_cast<size_t>(first) * vocab);
    EXPECT_THAT(absl::MakeSpan(logits).subspan(static_cast<size_t>(first) * vocab),
                ::testing::Pointwise(::testing::FloatNear(kValueTolerance), expected));
  }
}

TEST_P(ReferenceTest, LogProbabilitiesAndEntropiesAgree) {
  Pack pack;
  for (const auto& sequence : sequences_) pack.Add(sequence);
  for (const std::string temperature : {"1.0", "0.7"}) {
    const Scores scores = model_->Score(pack, std::stof(temperature));
    const std::vector<float> logprob = Floats("logprob.t" + temperature);
    const std::vector<float> entropy = Floats("entropy.t" + temperature);
    for (size_t i = 0; i < pack.rows.size(); ++i) {
      ASSERT_NEAR(scores.logprob[i], logprob[pack.rows[i]], kValueTolerance) << "row " << pack.rows[i];
      ASSERT_NEAR(scores.entropy[i], entropy[pack.rows[i]], kValueTolerance) << "row " << pack.rows[i];
    }
  }
}

TEST_P(ReferenceTest, GradientsOfEveryParameterAgree) {
  const Pack pack = SftPack();
  const std::vector<float> gradients = model_->Gradients(pack, SftWeights(pack), 1.0F);
  for (const TensorPart& part : manifest().parts) {
    const std::vector<float> expected = Floats("grad." + part.checkpoint_name);
    const std::vector<float> got = CheckpointTensor(manifest(), gradients, part);
    ASSERT_EQ(expected.size(), got.size()) << part.checkpoint_name;
    double difference = 0;
    double norm = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      difference += std::pow(static_cast<double>(got[i]) - expected[i], 2);
      norm += std::pow(static_cast<double>(expected[i]), 2);
    }
    EXPECT_LE(std::sqrt(difference / norm), kGradientTolerance) << part.checkpoint_name;
  }
}

TEST_P(ReferenceTest, ParametersAfterTenStepsAgree) {
  const Pack pack = SftPack();
  std::vector<float>& weights = model_->weights();
  Kernels& kernels = model_->kernels();
  const auto n = static_cast<int64_t>(weights.size());
  std::vector<float> m(n), v(n);
  for (int step = 1; step <= 10; ++step) {
    const std::vector<float> gradients = model_->Gradients(pack, SftWeights(pack), 1.0F);
    const double norm = std::sqrt(kernels.SumOfSquares(gradients.data(), n));
    EXPECT_NEAR(norm / json_["grad_norms"][step - 1].get<double>(), 1.0, 2e-4) << "step " << step;
    kernels.AdamW(
        {.learning_rate = 1e-3, .weight_decay = 0.01, .clip_scale = std::min(1.0, 1.0 / (norm + 1e-6)), .step = step},
        n, gradients.data(), weights.data(), m.data(), v.data());
  }
  double difference = 0;
  int64_t count = 0;
  for (const TensorPart& part : manifest().parts) {
    const std::vector<float> expected = Floats("adamw10." + part.checkpoint_name);
    const std::vector<float> got = CheckpointTensor(manifest(), weights, part);
    for (size_t i = 0; i < got.size(); ++i) difference += std::pow(static_cast<double>(got[i]) - expected[i], 2);
    count += static_cast<int64_t>(got.size());
  }
  EXPECT_LE(std::sqrt(difference / static_cast<double>(count)), kParameterTolerance);
}

TEST_P(ReferenceTest, GreedyTokensAreIdentical) {
  for (const auto& item : json_["greedy"]) {
    const std::vector<int> expected = item["tokens"];
    EXPECT_EQ(model_->Greedy(item["prompt"], static_cast<int>(expected.size())), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ReferenceTest, ::testing::ValuesIn(References()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tandem::testing
