// Generation on a random model: what a completion is must depend on its request alone.

#include "services/inference/generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/inference/generator_run.h"
#include "tests/testing/status_matchers.h"

namespace tandem::inference {
namespace {

using ::tandem::testing::GeneratorRun;
using ::tandem::testing::IsOk;
using ::tandem::testing::Pack;
using ::tandem::testing::RandomPrompt;
using ::tandem::testing::RecordingSink;
using ::tandem::testing::StatusIs;
using ::testing::HasSubstr;

constexpr SamplingParams kSampling{.temperature = 0.9F, .top_k = 40, .top_p = 0.95, .seed = 77, .max_tokens = 40};

// Bits, so that -0 and 0 differ.
std::vector<uint32_t> Bits(const std::vector<float>& values) {
  std::vector<uint32_t> bits(values.size());
  std::memcpy(bits.data(), values.data(), values.size() * sizeof(float));
  return bits;
}

void ExpectSame(const RecordingSink& a, const RecordingSink& b) {
  ASSERT_TRUE(a.done.has_value() && b.done.has_value());
  EXPECT_THAT(*a.done, IsOk());
  EXPECT_THAT(*b.done, IsOk());
  ASSERT_EQ(a.tokens, b.tokens);
  for (const auto& [index, logprobs] : a.logprobs) EXPECT_EQ(Bits(logprobs), Bits(b.logprobs.at(index))) << index;
}

std::shared_ptr<RecordingSink> Alone(const Request& request) {
  GeneratorRun run;
  auto sink = run.Add(request);
  run.RunAll();
  return sink;
}

Request OfPrompt(std::vector<int> prompt, SamplingParams sampling = kSampling) {
  Request request;
  request.prompts = {std::move(prompt)};
  request.sampling = sampling;
  request.end_tokens = {3};
  return request;
}

TEST(GeneratorTest, ACompletionDoesNotDependOnItsBatch) {
  const Request request = OfPrompt(RandomPrompt(37, 1));
  const auto alone = Alone(request);
  GeneratorRun run;
  std::vector<std::shared_ptr<RecordingSink>> others;
  for (uint32_t i = 0; i < 16; ++i)
    others.push_back(run.Add(OfPrompt(RandomPrompt(static_cast<int>(3 + 5 * i), 50 + i))));
  auto batched = run.Add(request);
  for (uint32_t i = 16; i < 31; ++i)
    others.push_back(run.Add(OfPrompt(RandomPrompt(static_cast<int>(3 + 5 * i), 50 + i))));
  run.RunAll();
  ExpectSame(*alone, *batched);
  ExpectSame(*others[7], *Alone(OfPrompt(RandomPrompt(3 + 5 * 7, 57))));
}

TEST(GeneratorTest, ChunksBatchesAndPreemptionChangeNothing) {
  Request first = OfPrompt(RandomPrompt(70, 2), {.seed = 4, .max_tokens = 60, .n = 3});
  Request second = OfPrompt(RandomPrompt(33, 3), {.seed = 4, .max_tokens = 60, .n = 3});
  first.end_tokens = {};
  second.end_tokens = {};
  const auto expected_first = Alone(first);
  const auto expected_second = Alone(second);
  const GeneratorLimits all_limits[] = {{.kv_blocks = 9, .max_batch = 16, .prefill_tokens = 16},
                                        {.kv_blocks = 12, .max_batch = 2, .prefill_tokens = 7},
                                        {.kv_blocks = 100, .max_batch = 3, .prefill_tokens = 1}};
  uint64_t preemptions = 0;
  for (const GeneratorLimits& limits : all_limits) {
    GeneratorRun run(limits, /*threads=*/1);
    auto a = run.Add(first);
    auto b = run.Add(second);
    run.RunAll();
    ExpectSame(*expected_first, *a);
    ExpectSame(*expected_second, *b);
    preemptions += run.generator->scheduler().preemptions();
    EXPECT_EQ(run.generator->scheduler().blocks().used(), 0);
  }
  EXPECT_GT(preemptions, 0U);  // else the test shows less than it says
}

TEST(GeneratorTest, AnInterruptionWithALostCacheChangesNothing) {
  const Request request = OfPrompt(RandomPrompt(37, 5), {.seed = 9, .max_tokens = 50, .n = 4});
  const auto alone = Alone(request);
  for (const int steps : {0, 1, 5, 30}) {
    GeneratorRun run({.kv_blocks = 100, .prefill_tokens = 20});
    auto sink = run.Add(request);
    for (int i = 0; i < steps; ++i) run.Step();
    run.generator->DropCache();
    run.Overwrite();
    run.RunAll();
    ExpectSame(*alone, *sink);
  }
}

TEST(GeneratorTest, SharingAPromptChangesNothing) {
  const std::vector<int> prompt = RandomPrompt(45, 6);
  SamplingParams sampling = kSampling;
  sampling.n = 8;
  const auto shared = Alone(OfPrompt(prompt, sampling));
  sampling.n = 1;
  Request separate = OfPrompt(prompt, sampling);
  separate.prompts.assign(8, prompt);  // completion i draws from (seed, i) in both
  ExpectSame(*shared, *Alone(separate));
  EXPECT_NE(shared->tokens.at(0), shared->tokens.at(1));
}

TEST(GeneratorTest, LogprobsHaveTheBitsOfTheTrainersForward) {
  for (const float temperature : {0.0F, 0.7F, 1.0F}) {
    GeneratorRun run;
    SamplingParams sampling{.temperature = temperature, .top_p = 0.9, .seed = 5, .max_tokens = 30, .n = 3};
    Request request = OfPrompt(RandomPrompt(29, 7), sampling);
    request.prompts.push_back(RandomPrompt(64, 8));
    auto sink = run.Add(request);
    run.RunAll();
    Pack pack;
    std::vector<float> reported;
    for (const auto& [index, tokens] : sink->tokens) {
      std::vector<int> sequence = request.prompts[static_cast<size_t>(index / 3)];
      const int prompt = static_cast<int>(sequence.size());
      sequence.insert(sequence.end(), tokens.begin(), tokens.end());
      pack.Add(sequence, prompt);
      reported.insert(reported.end(), sink->logprobs.at(index).begin(), sink->logprobs.at(index).end());
    }
    EXPECT_EQ(Bits(reported), Bits(run.model.Score(pack, temperature).logprob));
    float& weight = run.model.weights()[1000];  // the last bit of one weight shows
    weight = std::nextafter(weight, 10.0F);
    EXPECT_NE(Bits(reported), Bits(run.model.Score(pack, temperature).logprob));
  }
}

TEST(GeneratorTest, PromptLogprobsAreThoseOfTheTrainersForward) {
  GeneratorRun run({.kv_blocks = 64, .prefill_tokens = 16});
  Request request = OfPrompt(RandomPrompt(75, 9), {.seed = 1, .max_tokens = 3, .n = 2});
  request.prompt_logprobs = true;
  auto sink = run.Add(request);
  run.RunAll();
  Pack pack;
  pack.Add(request.prompts[0]);
  std::vector<float> expected = run.model.Score(pack, 1.0F).logprob;
  expected.insert(expected.begin(), 0.0F);  // the first token has none
  EXPECT_EQ(Bits(sink->prompt_logprobs), Bits(expected));
  EXPECT_EQ(sink->prompt_version, 1U);
}

TEST(GeneratorTest, ANewVersionIsUsedFromTheNextTokenOnWithNothingOfTheOld) {
  const std::vector<int> prompt = RandomPrompt(40, 10);
  GeneratorRun run({.kv_blocks = 64, .prefill_tokens = 512});
  Request request = OfPrompt(prompt, {.seed = 3, .max_tokens = 30, .n = 2});
  request.end_tokens = {};
  auto sink = run.Add(request);
  for (int i = 0; i < 9; ++i) run.Step();
  const std::vector<float> old_weights = run.model.weights();
  std::vector<float> new_weights = old_weights;
  for (float& weight : new_weights) weight *= 1.02F;
  run.SetWeights(2, new_weights);
  run.RunAll();
  for (const auto& [index, tokens] : sink->tokens) {
    ASSERT_EQ(tokens.size(), 30U);
    std::vector<int> sequence = prompt;
    sequence.insert(sequence.end(), tokens.begin(), tokens.end());
    Pack pack;
    pack.Add(sequence, static_cast<int>(prompt.size()));
    for (const uint64_t version : {1U, 2U}) {
      run.model.weights() = version == 1 ? old_weights : new_weights;
      const std::vector<uint32_t> expected = Bits(run.model.Score(pack, 1.0F).logprob);
      const std::vector<uint32_t> reported = Bits(sink->logprobs.at(index));
      for (size_t t = 0; t < tokens.size(); ++t) {
        EXPECT_EQ(sink->versions.at(index)[t], t < 9 ? 1U : 2U);
        EXPECT_EQ(reported[t] == expected[t], sink->versions.at(index)[t] == version) << index << " " << t;
      }
    }
  }
}

TEST(GeneratorTest, ARolloutEndsWhenItsVersionIsGone) {
  GeneratorRun run;
  Request request = OfPrompt(RandomPrompt(20, 11));
  request.pinned_version = 1;
  auto sink = run.Add(request);
  run.Step();
  run.SetWeights(2, run.model.weights());
  EXPECT_THAT(sink->done.value(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("rollout of version 1")));
  EXPECT_TRUE(run.generator->idle());
  EXPECT_EQ(run.generator->scheduler().blocks().used(), 0);
}

TEST(GeneratorTest, TheEndTokenEndsACompletionAndBelongsToIt) {
  Request request = OfPrompt(RandomPrompt(20, 12), {.seed = 21, .max_tokens = 50, .n = 4});
  request.end_tokens = {};
  const auto open = Alone(request);
  EXPECT_EQ(open->finish.at(0), FinishReason::kLength);
  EXPECT_EQ(open->tokens.at(0).size(), 50U);
  const int end = open->tokens.at(0)[4];
  request.end_tokens = {end};
  const auto ended = Alone(request);
  EXPECT_EQ(ended->finish.at(0), FinishReason::kStop);
  EXPECT_EQ(ended->tokens.at(0).back(), end);
  for (const auto& [index, tokens] : ended->tokens) {
    const std::vector<int>& whole = open->tokens.at(index);
    EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), whole.begin()));
    EXPECT_EQ(std::find(tokens.begin(), tokens.end() - 1, end), tokens.end() - 1);
  }
}

TEST(GeneratorTest, SeedsAndSamplesDrawDifferentNumbers) {
  Request request = OfPrompt(RandomPrompt(20, 13), {.seed = 1, .max_tokens = 20, .n = 2});
  const auto one = Alone(request);
  request.sampling.seed = 2;
  const auto two = Alone(request);
  EXPECT_NE(one->tokens.at(0), two->tokens.at(0));
  EXPECT_NE(one->tokens.at(0), one->tokens.at(1));
}

TEST(GeneratorTest, DeadlinesAndGoneReadersFreeEverything) {
  GeneratorRun run({.kv_blocks = 8, .max_batch = 1, .prefill_tokens = 16});
  Request request = OfPrompt(RandomPrompt(20, 14));
  request.timeout = absl::Seconds(3);
  auto running = run.Add(request);
  run.Step();
  run.Step();
  auto waiting = run.Add(request);
  run.clock.Advance(absl::Seconds(5));
  run.generator->Sweep();
  EXPECT_THAT(waiting->done.value(), StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("no token within 3s")));
  EXPECT_FALSE(running->done.has_value());  // it has a token
  running->abandoned = absl::CancelledError("gone");
  run.generator->Sweep();
  EXPECT_THAT(running->done.value(), StatusIs(absl::StatusCode::kCancelled, HasSubstr("gone")));
  EXPECT_TRUE(run.generator->idle());
  EXPECT_EQ(run.generator->scheduler().blocks().used(), 0);
}

TEST(GeneratorTest, DamagedWeightsEndTheRequestAndNotTheProcess) {
  GeneratorRun run;
  std::vector<float> weights = run.model.weights();
  weights[run.model.transformer().manifest().at("norm").offset] = std::nanf("");
  run.SetWeights(4, weights);
  auto sink = run.Add(OfPrompt(RandomPrompt(20, 15), {.temperature = 0, .max_tokens = 5, .n = 3}));
  run.RunAll();
  EXPECT_THAT(sink->done.value(), StatusIs(absl::StatusCode::kInternal, HasSubstr("not finite at version 4")));
}

}  // namespace
}  // namespace tandem::inference
