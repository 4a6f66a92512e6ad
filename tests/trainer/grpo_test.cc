// Advantages, losses, metrics and gradients of GRPO from recorded log-probabilities, against TRL.

#include <cmath>
#include <limits>

#include "common/base/status.h"
#include "tests/testing/status_matchers.h"
#include "tests/trainer/grpo_case.h"

namespace tandem::trainer {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

class GrpoReferenceTest : public ::testing::TestWithParam<std::string> {
 protected:
  const GrpoCase case_ = ReadGrpoCase(GetParam() + ".json");
};

TEST_P(GrpoReferenceTest, AdvantagesAreThoseOfTrl) {
  const Advantages got = ComputeAdvantages(case_.rewards, case_.reward_weights, case_.num_generations, case_.scale);
  ASSERT_EQ(got.advantages.size(), case_.advantages.size());
  for (size_t i = 0; i < got.advantages.size(); ++i) EXPECT_NEAR(got.advantages[i], case_.advantages[i], 1e-6) << i;
}

TEST_P(GrpoReferenceTest, LossesOfMicroBatchesAreThoseOfTrl) {
  const std::vector<ScoredRow> rows = RowsOf(case_, case_.logps, case_.old_logps, case_.entropies);
  const std::vector<double> losses = MicroBatchLosses(case_.options, rows);
  ASSERT_EQ(losses.size(), case_.micro_batch_losses.size());
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], case_.micro_batch_losses[i], 1e-6) << i;
  const Metrics metrics = LossMetrics(case_.options, rows);
  EXPECT_NEAR(metrics.at("loss"), case_.loss, 1e-6);
}

TEST_P(GrpoReferenceTest, MetricsAreThoseOfTrl) {
  const Advantages advantages =
      ComputeAdvantages(case_.rewards, case_.reward_weights, case_.num_generations, case_.scale);
  std::vector<int64_t> lengths;
  for (const std::vector<int>& ids : case_.completion_ids) lengths.push_back(static_cast<int64_t>(ids.size()));
  const std::vector<std::string> names = {"reward_0", "reward_1"};
  Metrics got = RolloutMetrics(lengths, case_.truncated, case_.rewards, names, advantages);
  got.merge(LossMetrics(case_.options, RowsOf(case_, case_.logps, case_.old_logps, case_.entropies)));
  int compared = 0;
  for (const auto& [name, values] : case_.metrics) {
    ASSERT_TRUE(got.contains(name)) << name;
    double mean = 0;
    for (const double v : values) mean += v / static_cast<double>(values.size());
    // A micro-batch whose rows are all masked has no extremes; TRL logs NaN for it, which JSON has as a string or null.
    if (std::isnan(mean)) continue;
    EXPECT_NEAR(got.at(name), mean, 2e-6) << name;
    ++compared;
  }
  EXPECT_GE(compared, 18);
}

TEST_P(GrpoReferenceTest, GradientIsTheDerivativeOfTheLoss) {
  for (size_t i = 0; i < case_.logps.size(); ++i) {
    for (size_t t = 0; t < case_.logps[i].size(); ++t) {
      const double logp = case_.logps[i][t], old = case_.old_logps[i][t], advantage = case_.advantages[i];
      const double h = 1e-5;
      const double up = ComputeTokenTerm(case_.options, logp + h, old, advantage).loss;
      const double down = ComputeTokenTerm(case_.options, logp - h, old, advantage).loss;
      EXPECT_NEAR(ComputeTokenTerm(case_.options, logp, old, advantage).gradient, (up - down) / (2 * h), 1e-7);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, GrpoReferenceTest, ::testing::ValuesIn(GrpoCasePaths()),
                         [](const auto& info) { return GrpoCaseName(info.param); });

TEST(AdvantagesTest, EqualRewardsGiveExactlyZero) {
  // 0.1 summed three times and divided by three is not 0.1.
  for (const auto scale : {jobs::ScaleRewards::kGroup, jobs::ScaleRewards::kBatch, jobs::ScaleRewards::kNone}) {
    const Advantages got = ComputeAdvantages({{0.1}, {0.1}, {0.1}, {0.9}, {0.1}, {0.2}}, {1.0}, 3, scale);
    EXPECT_EQ(got.advantages[0], 0);
    EXPECT_EQ(got.advantages[1], 0);
    EXPECT_EQ(got.advantages[2], 0);
    EXPECT_NE(got.advantages[3], 0);
  }
}

TEST(AdvantagesTest, GroupWithoutAnyRewardHasNoSignal) {
  const Advantages got = ComputeAdvantages({{kNone}, {kNone}, {1.0}, {0.0}}, {1.0}, 2, jobs::ScaleRewards::kGroup);
  EXPECT_EQ(got.advantages[0], 0);
  EXPECT_EQ(got.advantages[1], 0);
  EXPECT_GT(got.advantages[2], 0);
  EXPECT_EQ(got.reward_mean, 0.5);
}

TEST(AdvantagesTest, LoneRewardOfAGroupHasNoSignal) {
  const Advantages got = ComputeAdvantages({{kNone}, {3.0}}, {1.0}, 2, jobs::ScaleRewards::kGroup);
  EXPECT_EQ(got.advantages[1], 0);
}

TEST(TokenTermTest, OnPolicyRatioIsOneAndGradientIsMinusAdvantage) {
  const TokenTerm term = ComputeTokenTerm({}, -1.25, -1.25, 0.75);
  EXPECT_EQ(term.loss, -0.75);
  EXPECT_EQ(term.gradient, -0.75);
  EXPECT_FALSE(term.clipped_low || term.clipped_high);
}

TEST(TokenTermTest, OnlyTheSideThatWouldHelpIsClipped) {
  const LossOptions options{.epsilon = 0.2, .epsilon_high = 0.3};
  EXPECT_EQ(ComputeTokenTerm(options, 0, std::log(0.5), 1).gradient, 0);   // ratio 2, A > 0: clipped
  EXPECT_EQ(ComputeTokenTerm(options, 0, std::log(2.0), -1).gradient, 0);  // ratio 1/2, A < 0: clipped
  EXPECT_NEAR(ComputeTokenTerm(options, 0, std::log(2.0), 1).gradient, -0.5, 1e-12);
  EXPECT_NEAR(ComputeTokenTerm(options, 0, std::log(0.5), -1).gradient, 2, 1e-12);
}

TEST(LossMetricsTest, GapIsBetweenSamplerAndTrainerOfTheSameWeights) {
  const std::vector<float> logps = {-1, -2}, old = {-1.5F, -2.5F}, sampling = {-1.5F, -2.0F}, entropies = {1, 1};
  const ScoredRow row{.logps = logps,
                      .old_logps = old,
                      .sampling_logps = sampling,
                      .entropies = entropies,
                      .advantage = 1,
                      .token_weight = 0.5};
  const Metrics got = LossMetrics({}, {row});
  EXPECT_EQ(got.at("sampling/sampling_logp_difference/max"), 0.5);
  EXPECT_EQ(got.at("sampling/sampling_logp_difference/mean"), 0.25);
}

TEST(TokenWeightTest, MaskedRowWeighsNothing) {
  EXPECT_EQ(TokenWeight({}, 0, 10), 0);
  EXPECT_EQ(TokenWeight({.type = jobs::LossType::kGrpo, .micro_batch_rows = 2}, 5, 10), 0.1);
  EXPECT_EQ(TokenWeight({.gradient_accumulation_steps = 1, .steps_per_generation = 4}, 5, 10), 0.4);
}

}  // namespace
}  // namespace tandem::trainer
