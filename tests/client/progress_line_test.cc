#include "services/client/progress_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ProgressView SomeView() {
  ProgressView view;
  view.name = "sums (job 3)";
  view.stage = "generation";
  view.step = 12;
  view.max_steps = 75;
  view.fraction = 0.4;
  view.tokens_per_second = 812.4;
  view.turn_holder = "inference";
  view.metrics = {{"reward", 0.6123}, {"loss", 0.5}, {"sampling/sampling_logp_difference/max", 0}};
  return view;
}

TEST(ProgressLineTest, LiveLineShowsStageStepRewardGapSpeedAndTurn) {
  EXPECT_EQ(LiveLine(SomeView(), 200),
            "sums (job 3) step 12/75 generation 40%  reward 0.612  gap 0  812 tok/s  turn: inference");
}

TEST(ProgressLineTest, SupervisedJobsShowTheLoss) {
  ProgressView view = SomeView();
  view.metrics.erase("reward");
  EXPECT_THAT(LiveLine(view, 200), HasSubstr("loss 0.5000"));
  EXPECT_THAT(LiveLine(view, 200), Not(HasSubstr("reward")));
}

TEST(ProgressLineTest, LiveLineNeverWrapsTheTerminal) {
  EXPECT_EQ(LiveLine(SomeView(), 20).size(), 20U);
}

TEST(ProgressLineTest, StepLineHasTheMetricsThatThereAre) {
  EXPECT_EQ(StepLine(3, 9, {{"reward", 0.25}, {"grad_norm", 1.5}}), "step 3/9 reward=0.25 grad_norm=1.5");
}

TEST(ProgressLineTest, BytesHaveTheUnitThatFits) {
  EXPECT_EQ(HumanBytes(0), "0 bytes");
  EXPECT_EQ(HumanBytes(1023), "1023 bytes");
  EXPECT_EQ(HumanBytes(uint64_t{1} << 20), "1.0 MiB");
  EXPECT_EQ(HumanBytes(uint64_t{3} << 29), "1.5 GiB");
}

}  // namespace
}  // namespace tandem::client
