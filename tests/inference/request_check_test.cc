#include "services/inference/request_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tandem::inference {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> WrongFields(const SamplingFields& fields) {
  std::vector<FieldError> errors;
  CheckSampling(fields, nullptr, 0, errors);
  std::vector<std::string> names;
  names.reserve(errors.size());
  for (const FieldError& error : errors) names.push_back(error.field);
  return names;
}

TEST(RequestCheckTest, SamplingValuesOutOfRangeAreNamed) {
  EXPECT_THAT(WrongFields({}), IsEmpty());
  EXPECT_THAT(WrongFields({.temperature = 0.0, .top_p = 1.0, .top_k = -1, .max_tokens = 1, .n = 256}), IsEmpty());
  EXPECT_THAT(WrongFields({.temperature = -0.1}), ElementsAre("sampling.temperature"));
  EXPECT_THAT(WrongFields({.temperature = std::nan("")}), ElementsAre("sampling.temperature"));
  EXPECT_THAT(WrongFields({.temperature = std::numeric_limits<double>::infinity()}),
              ElementsAre("sampling.temperature"));
  EXPECT_THAT(WrongFields({.temperature = 1e300}), ElementsAre("sampling.temperature"));
  EXPECT_THAT(WrongFields({.temperature = 1e-300}), ElementsAre("sampling.temperature"));
  EXPECT_THAT(WrongFields({.top_p = 0.0}), ElementsAre("sampling.top_p"));
  EXPECT_THAT(WrongFields({.top_p = 1.01}), ElementsAre("sampling.top_p"));
  EXPECT_THAT(WrongFields({.top_p = std::nan("")}), ElementsAre("sampling.top_p"));
  EXPECT_THAT(WrongFields({.top_k = -2}), ElementsAre("sampling.top_k"));
  EXPECT_THAT(WrongFields({.max_tokens = 0}), ElementsAre("sampling.max_tokens"));
  EXPECT_THAT(WrongFields({.n = 0}), ElementsAre("sampling.n"));
  EXPECT_THAT(WrongFields({.temperature = -1, .top_p = 2, .n = 257}),
              ElementsAre("sampling.temperature", "sampling.top_p", "sampling.n"));
}

TEST(RequestCheckTest, UnsetValuesComeFromTheModelAndGivenOnesStay) {
  ModelConfig defaults;
  defaults.default_temperature = 0.2;
  defaults.default_top_p = 0.9;
  defaults.default_top_k = 50;
  std::vector<FieldError> errors;
  SamplingParams params = CheckSampling({.top_p = 1.0}, &defaults, 42, errors);
  EXPECT_FLOAT_EQ(params.temperature, 0.2F);
  EXPECT_EQ(params.top_p, 1.0);
  EXPECT_EQ(params.top_k, 50);
  EXPECT_EQ(params.seed, 42U);
  EXPECT_EQ(params.max_tokens, 16);
  params = CheckSampling({.seed = 7}, nullptr, 42, errors);
  EXPECT_EQ(params.temperature, 1.0F);
  EXPECT_EQ(params.top_k, 0);
  EXPECT_EQ(params.seed, 7U);
  EXPECT_THAT(errors, IsEmpty());
}

class PromptCheckTest : public ::testing::Test {
 protected:
  PromptCheckTest() {
    config_.vocab_size = 100;
    config_.max_position_embeddings = 32;
  }
  // The text of the only error, or "".
  std::string Check(const std::vector<int>& ids, const SamplingFields& fields = {}) {
    std::vector<FieldError> errors;
    params_ = CheckSampling(fields, nullptr, 0, errors);
    CheckPrompt("token_ids.ids", ids, config_, fields, params_, errors);
    EXPECT_LE(errors.size(), 1U);
    return errors.empty() ? "" : errors[0].field + ": " + errors[0].description;
  }

  ModelConfig config_;
  SamplingParams params_;
};

TEST_F(PromptCheckTest, RefusesEmptyPromptsAndForeignIds) {
  EXPECT_EQ(Check({1, 99}), "");
  EXPECT_THAT(Check({}), HasSubstr("no tokens"));
  EXPECT_THAT(Check({1, 100}), HasSubstr("token_ids.ids: id 100 at 1 is not in the vocabulary (0..99)"));
  EXPECT_THAT(Check({-1}), HasSubstr("id -1 at 0"));
}

TEST_F(PromptCheckTest, RefusesWhatDoesNotFitTheContextWithNumbers) {
  EXPECT_EQ(Check(std::vector<int>(30, 1), {.max_tokens = 2}), "");
  EXPECT_EQ(Check(std::vector<int>(30, 1), {.max_tokens = 3}),
            "sampling.max_tokens: the prompt has 30 tokens, max_tokens is 3, the model's context is 32: at most 2 fit");
  EXPECT_THAT(Check(std::vector<int>(32, 1)), HasSubstr("the prompt has 32 tokens; the model's context of 32"));
  EXPECT_EQ(Check(std::vector<int>(30, 1)), "");  // the default is cut to what fits
  EXPECT_EQ(params_.max_tokens, 2);
}

}  // namespace
}  // namespace tandem::inference
