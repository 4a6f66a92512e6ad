#include "services/jobs/batch_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/testing/status_matchers.h"

namespace tandem::jobs {
namespace {

using ::tandem::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

JobSpec Spec(int64_t rows, int64_t accumulation, std::optional<int64_t> steps_per_generation, int64_t iterations,
             int64_t generations = 4) {
  JobSpec spec;
  spec.per_device_train_batch_size = rows;
  spec.gradient_accumulation_steps = accumulation;
  spec.steps_per_generation = steps_per_generation;
  spec.num_iterations = iterations;
  spec.num_generations = generations;
  return spec;
}

TEST(BatchPlan, DefaultGenerationBatchIsOneOptimizerStep) {
  ASSERT_OK_AND_ASSIGN(const BatchPlan plan, PlanBatches(Spec(8, 3, std::nullopt, 1), 25));
  EXPECT_EQ(plan.steps_per_generation, 3);
  EXPECT_EQ(plan.generation_batch_size, 24);
  EXPECT_EQ(plan.prompts_per_generation, 6);
  EXPECT_EQ(plan.completions_per_step, 24);
  EXPECT_EQ(plan.batches_per_epoch, 4);  // one row is left over
  EXPECT_EQ(plan.optimizer_steps, 12);   // 3 epochs
  EXPECT_FALSE(plan.needs_old_logprobs);
}

// TRL: gradient_accumulation_steps % (steps_per_generation * num_iterations) != 0.
TEST(BatchPlan, OldLogprobsAreNeededWhenAStepDoesNotSeeItsBatchWholeAndFirst) {
  EXPECT_FALSE(NeedsOldLogprobs(Spec(8, 1, std::nullopt, 1)));
  EXPECT_FALSE(NeedsOldLogprobs(Spec(8, 4, 4, 1)));
  EXPECT_FALSE(NeedsOldLogprobs(Spec(8, 4, 2, 1)));  // two generation batches a step
  EXPECT_FALSE(NeedsOldLogprobs(Spec(8, 4, 2, 2)));
  EXPECT_TRUE(NeedsOldLogprobs(Spec(8, 4, 8, 1)));
  EXPECT_TRUE(NeedsOldLogprobs(Spec(8, 4, 4, 2)));
  EXPECT_TRUE(NeedsOldLogprobs(Spec(8, 4, 3, 1)));
  EXPECT_TRUE(NeedsOldLogprobs(Spec(8, 4, 8, 2)));
  JobSpec sft = Spec(8, 4, 8, 2);
  sft.task = Task::kSft;
  EXPECT_FALSE(NeedsOldLogprobs(sft));
}

TEST(BatchPlan, MaxStepsWinsOverEpochs) {
  JobSpec spec = Spec(8, 1, std::nullopt, 1);
  spec.max_steps = 1000;
  ASSERT_OK_AND_ASSIGN(const BatchPlan plan, PlanBatches(spec, 2));
  EXPECT_EQ(plan.optimizer_steps, 1000);
}

TEST(BatchPlan, EpochsCountIterationsAndSlices) {
  JobSpec spec = Spec(8, 4, 8, 2);  // 64 completions = 16 prompts a batch, 16 micro-batches
  spec.num_train_epochs = 1.5;
  ASSERT_OK_AND_ASSIGN(const BatchPlan plan, PlanBatches(spec, 40));
  EXPECT_EQ(plan.batches_per_epoch, 2);
  EXPECT_EQ(plan.optimizer_steps, 12);  // 2 * 16 / 4 = 8 an epoch
}

// transformers: a whole number counts, below 1 it is a share, rounded up.
TEST(BatchPlan, WarmupIsANumberOfStepsOrAShare) {
  JobSpec spec = Spec(8, 1, std::nullopt, 1);
  spec.max_steps = 25;
  for (const auto& [given, wanted] :
       std::vector<std::pair<double, int64_t>>{{0, 0}, {0.1, 3}, {1, 1}, {7.9, 7}, {30, 30}}) {
    spec.warmup_steps = given;
    ASSERT_OK_AND_ASSIGN(const BatchPlan plan, PlanBatches(spec, 100));
    EXPECT_EQ(plan.warmup_steps, wanted) << given;
  }
}

TEST(BatchPlan, FewerRowsThanOneBatchAreRefused) {
  JobSpec spec = Spec(8, 3, std::nullopt, 1);
  spec.dataset.path = "d.jsonl";
  EXPECT_THAT(PlanBatches(spec, 5), StatusIs(absl::StatusCode::kInvalidArgument,
                                             HasSubstr("d.jsonl has 5 usable rows, but one generation batch takes 6")));
}

TEST(BatchPlan, MicroBatchesWalkSlicesThenIterationsThenBatches) {
  ASSERT_OK_AND_ASSIGN(const BatchPlan plan, PlanBatches(Spec(8, 1, 3, 2), 100));
  std::vector<std::vector<int64_t>> places;
  for (int64_t m = 0; m < 8; ++m) {
    const MicroBatch place = MicroBatchAt(plan, m);
    places.push_back({place.generation_batch, place.iteration, place.slice});
  }
  using P = std::vector<int64_t>;
  EXPECT_THAT(places, ElementsAre(P{0, 0, 0}, P{0, 0, 1}, P{0, 0, 2}, P{0, 1, 0}, P{0, 1, 1}, P{0, 1, 2}, P{1, 0, 0},
                                  P{1, 0, 1}));
}

TEST(BatchPlan, AnEpochVisitsEachRowAtMostOnceInAnOrderOfItsOwn) {
  JobSpec spec = Spec(8, 1, 2, 1);  // 4 prompts
  ASSERT_OK_AND_ASSIGN(const BatchPlan plan, PlanBatches(spec, 21));
  ASSERT_EQ(plan.batches_per_epoch, 5);
  std::vector<std::vector<int64_t>> epochs;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<int64_t>& visited = epochs.emplace_back();
    for (int64_t b = 0; b < 5; ++b) {
      const std::vector<int64_t> rows = PromptRows(plan, spec, epoch * 5 + b);
      EXPECT_EQ(rows.size(), 4);
      visited.insert(visited.end(), rows.begin(), rows.end());
    }
    EXPECT_EQ(std::set<int64_t>(visited.begin(), visited.end()).size(), 20);
    EXPECT_GE(*std::min_element(visited.begin(), visited.end()), 0);
    EXPECT_LT(*std::max_element(visited.begin(), visited.end()), 21);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
  const std::vector<int64_t> before = PromptRows(plan, spec, 3);
  spec.seed = 43;
  EXPECT_NE(PromptRows(plan, spec, 3), before);
  spec.shuffle_dataset = false;
  EXPECT_THAT(PromptRows(plan, spec, 6), ElementsAre(4, 5, 6, 7));
}

TEST(BatchPlan, RowOrderIsAPermutationOfSeedAndBatch) {
  JobSpec spec = Spec(8, 1, 2, 1);
  ASSERT_OK_AND_ASSIGN(const BatchPlan plan, PlanBatches(spec, 21));
  std::vector<int64_t> order = RowOrder(plan, spec, 0);
  EXPECT_EQ(order, RowOrder(plan, spec, 0));
  EXPECT_NE(order, RowOrder(plan, spec, 1));
  std::sort(order.begin(), order.end());
  for (int64_t i = 0; i < 16; ++i) EXPECT_EQ(order[i], i);
  spec.task = Task::kSft;
  ASSERT_OK_AND_ASSIGN(const BatchPlan sft, PlanBatches(spec, 21));
  EXPECT_EQ(sft.prompts_per_generation, 8);
  EXPECT_THAT(RowOrder(sft, spec, 1), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

}  // namespace
}  // namespace tandem::jobs
