#include "services/inference/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <set>

namespace tandem::inference {
namespace {

using ::testing::ElementsAre;

std::set<int> Reachable(absl::Span<const float> logits, const SamplingParams& params, int draws = 4000) {
  Sampler sampler;
  std::set<int> seen;
  for (int i = 0; i < draws; ++i) seen.insert(sampler.Sample(logits, params, (i + 0.5) / draws));
  return seen;
}

std::vector<float> LogsOf(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  logits.reserve(probabilities.size());
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

TEST(SamplerTest, GreedyTakesTheLowestIdAmongTies) {
  const std::vector<float> logits = {0.5F, 2.0F, 2.0F, -1.0F};
  Sampler sampler;
  EXPECT_EQ(sampler.Sample(logits, {.temperature = 0}, 0.99), 1);
  EXPECT_EQ(sampler.Sample(logits, {.temperature = 0.7F, .top_k = 1}, 0.99), 1);
}

TEST(SamplerTest, FrequenciesFollowTheTemperature) {
  const std::vector<float> logits = LogsOf({0.1, 0.2, 0.3, 0.4});
  for (const float temperature : {0.5F, 1.0F, 2.0F}) {
    std::vector<double> expected;
    double total = 0;
    for (const float logit : logits) {
      expected.push_back(std::exp(logit / temperature));
      total += expected.back();
    }
    std::map<int, int> counts;
    Sampler sampler;
    constexpr int kDraws = 10000;
    for (int i = 0; i < kDraws; ++i) {
      ++counts[sampler.Sample(logits, {.temperature = temperature}, (i + 0.5) / kDraws)];
    }
    for (int id = 0; id < 4; ++id) {
      EXPECT_NEAR(counts[id] / static_cast<double>(kDraws), expected[static_cast<size_t>(id)] / total, 2e-4);
    }
  }
}

TEST(SamplerTest, TopKKeepsExactlyKAndZeroOrMinusOneKeepAll) {
  const std::vector<float> logits = LogsOf({0.1, 0.3, 0.1, 0.2, 0.3});
  EXPECT_THAT(Reachable(logits, {.top_k = 2}), ElementsAre(1, 4));
  EXPECT_THAT(Reachable(logits, {.top_k = 4}), ElementsAre(0, 1, 3, 4));  // of equal ones the lower id
  EXPECT_EQ(Reachable(logits, {.top_k = 0}).size(), 5U);
  EXPECT_EQ(Reachable(logits, {.top_k = -1}).size(), 5U);
  EXPECT_EQ(Reachable(logits, {.top_k = 50}).size(), 5U);
}

TEST(SamplerTest, TopPKeepsTheCrossingToken) {
  const std::vector<float> logits = LogsOf({0.5, 0.25, 0.125, 0.125});
  EXPECT_THAT(Reachable(logits, {.top_p = 0.4}), ElementsAre(0));
  EXPECT_THAT(Reachable(logits, {.top_p = 0.6}), ElementsAre(0, 1));
  EXPECT_THAT(Reachable(logits, {.top_p = 0.8}), ElementsAre(0, 1, 2));
  EXPECT_EQ(Reachable(logits, {.top_p = 1.0}).size(), 4U);
}

TEST(SamplerTest, TopPCountsAfterTopK) {
  // Of the two that top_k keeps, the first has 0.4 / 0.7 = 0.57 of the probability.
  const std::vector<float> logits = LogsOf({0.4, 0.3, 0.2, 0.1});
  EXPECT_THAT(Reachable(logits, {.top_k = 2, .top_p = 0.5}), ElementsAre(0));
  EXPECT_THAT(Reachable(logits, {.top_k = 2, .top_p = 0.6}), ElementsAre(0, 1));
}

TEST(SamplerTest, OneTokenAlwaysRemains) {
  const std::vector<float> logits = LogsOf({0.25, 0.25, 0.25, 0.25});
  EXPECT_THAT(Reachable(logits, {.top_p = 1e-12}), ElementsAre(0));
}

TEST(SamplerTest, ExtremeUniformsAndLogitsStayInRange) {
  std::vector<float> logits(1000, -200.0F);
  logits[123] = 100.0F;
  Sampler sampler;
  for (const double u : {0.0, 0.5, std::nextafter(1.0, 0.0)}) {
    EXPECT_EQ(sampler.Sample(logits, {}, u), 123);
    EXPECT_EQ(sampler.Sample(logits, {.top_p = 0.9}, u), 123);
    EXPECT_EQ(sampler.Sample(logits, {.temperature = 1e-6F}, u), 123);
  }
  const std::vector<float> broken(7, std::nanf(""));
  for (const SamplingParams& params :
       {SamplingParams{}, SamplingParams{.top_k = 3}, SamplingParams{.temperature = 0}}) {
    const int id = sampler.Sample(broken, params, 0.5);
    EXPECT_GE(id, 0);
    EXPECT_LT(id, 7);
  }
}

TEST(SamplerTest, AgreesWithAPlainSortOnLargeVocabularies) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits(5000);
  for (float& logit : logits) logit = normal(random);
  const SamplingParams params{.temperature = 0.8F, .top_k = 700, .top_p = 0.9};
  std::vector<int> ids(logits.size());
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int>(i);
  std::stable_sort(ids.begin(), ids.end(),
                   [&](int a, int b) { return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)]; });
  ids.resize(700);
  double total = 0;
  std::vector<double> weights;
  for (const int id : ids) {
    weights.push_back(
        std::exp((static_cast<double>(logits[static_cast<size_t>(id)]) - logits[static_cast<size_t>(ids[0])]) / 0.8F));
    total += weights.back();
  }
  size_t kept = 0;
  double sum = 0;
  while (sum < 0.9 * total) sum += weights[kept++];
  Sampler sampler;
  for (int i = 0; i < 2000; ++i) {
    const double u = (i + 0.5) / 2000;
    double cumulative = 0;
    size_t rank = 0;
    while (rank + 1 < kept && (cumulative += weights[rank]) <= u * sum) ++rank;
    const int id = sampler.Sample(logits, params, u);
    if (std::abs(cumulative - u * sum) > 1e-4 * sum) {
      ASSERT_EQ(id, ids[rank]) << u;
    }
  }
}

TEST(SamplerTest, UniformsDependOnSeedSampleAndPosition) {
  const std::set<double> distinct = {SampleUniform(1, 0, 5), SampleUniform(2, 0, 5), SampleUniform(1, 1, 5),
                                     SampleUniform(1, 0, 6)};
  EXPECT_EQ(distinct.size(), 4U);
  EXPECT_EQ(SampleUniform(9, 3, 7), SampleUniform(9, 3, 7));
}

}  // namespace
}  // namespace tandem::inference
