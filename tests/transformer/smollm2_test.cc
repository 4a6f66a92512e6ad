// SmolLM2-135M-Instruct against transformers. Needs TANDEM_ORACLE_DIR: smollm2.json and smollm2.safetensors stand
// there, the checkpoint in ../smollm2.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "services/checkpoint/safetensors.h"
#include "tests/testing/status_matchers.h"
#include "tests/transformer/model_run.h"

namespace tandem::testing {
namespace {

constexpr float kTolerance = 2e-4F;

class SmolLm2Test : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* dir = std::getenv("TANDEM_ORACLE_DIR");
    if (dir == nullptr) GTEST_SKIP() << "TANDEM_ORACLE_DIR is not set";
    const std::string model_dir = std::string(dir) + "/../smollm2";
    if (!std::filesystem::exists(model_dir + "/config.json")) GTEST_SKIP() << model_dir << " holds no checkpoint";
    ASSERT_OK_AND_ASSIGN(values_, Safetensors::Open(std::string(dir) + "/smollm2.safetensors"));
    std::ifstream in(std::string(dir) + "/smollm2.json");
    json_ = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(json_.is_object());
    model_ = std::make_unique<ModelRun>(model_dir, MakeCpuKernels(2));
  }

  std::unique_ptr<Safetensors> values_;
  nlohmann::json json_;
  std::unique_ptr<ModelRun> model_;
};

TEST_F(SmolLm2Test, LogitsAndLogProbabilitiesAgree) {
  const int vocab = model_->transformer().config().vocab_size;
  for (size_t i = 0; i < json_["texts"].size(); ++i) {
    const auto& text = json_["texts"][i];
    const std::vector<int> ids = text["ids"];
    const std::vector<float> logits = model_->PagedLogits(ids, 64);
    ASSERT_OK_AND_ASSIGN(const std::vector<float> expected, values_->Floats("logits." + std::to_string(i)));
    const size_t first = text["logits_first_position"].get<size_t>() * vocab;
    EXPECT_THAT(absl::MakeSpan(logits).subspan(first),
                ::testing::Pointwise(::testing::FloatNear(kTolerance), expected));
    Pack pack;
    pack.Add(ids);
    EXPECT_THAT(model_->Score(pack, 1.0F).logprob,
                ::testing::Pointwise(::testing::FloatNear(kTolerance), text["logprobs"].get<std::vector<float>>()));
  }
}

TEST_F(SmolLm2Test, GreedyChatTokensAreIdentical) {
  for (const auto& chat : json_["chats"]) {
    const std::vector<int> expected = chat["tokens"];
    EXPECT_EQ(model_->Greedy(chat["ids"], static_cast<int>(expected.size())), expected);
  }
}

}  // namespace
}  // namespace tandem::testing
