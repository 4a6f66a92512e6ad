// A session's life against a real arbiter, in real processes: segments, sets, maps, turns, versions.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "tests/tenant/cluster.h"

namespace tandem::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Session, WeightsWrittenByOneProcessAreReadInPlaceByAnother) {
  Cluster cluster;
  auto trainer = cluster.Tenant("trainer");
  auto inference = cluster.Tenant("inference");
  EXPECT_THAT(trainer->Do("shared weights 6291456"), StartsWith("ok"));
  EXPECT_THAT(trainer->Do("set job-1 weights {manifest}"), StartsWith("ok"));
  EXPECT_THAT(trainer->Do("turn 5000"), StartsWith("ok"));
  EXPECT_EQ(trainer->Do("begin job-1"), "ok");
  EXPECT_EQ(trainer->Do("fill weights 7"), "ok");
  EXPECT_EQ(trainer->Do("commit job-1 step=1"), "ok 1");
  EXPECT_EQ(trainer->Do("yield"), "ok");
  inference->AwaitEvent("set:job-1:committed:1");
  EXPECT_THAT(inference->Do("turn 5000"), StartsWith("ok"));
  EXPECT_EQ(inference->Do("sets"), "ok job-1:1:{manifest}:step=1");
  EXPECT_THAT(inference->Do("map job-1"), StartsWith("ok"));
  EXPECT_EQ(inference->Do("check job-1 7"), "ok");
  EXPECT_EQ(inference->Do("attack job-1"), "ok mprotect EACCES");
}

TEST(Session, KeptBytesUnderAnOverlayComeBackBitForBit) {
  Cluster cluster;
  auto trainer = cluster.Tenant("trainer");
  auto inference = cluster.Tenant("inference");
  EXPECT_THAT(trainer->Do("private moments 40000000 kept"), StartsWith("ok"));
  EXPECT_THAT(trainer->Do("private gradients 10000000 plain"), StartsWith("ok"));
  EXPECT_THAT(inference->Do("private kv 60000000 evictable"), StartsWith("ok"));
  EXPECT_THAT(trainer->Do("turn 5000"), HasSubstr("moments"));  // new: nothing in it
  EXPECT_EQ(trainer->Do("fill moments 1"), "ok");
  EXPECT_EQ(trainer->Do("fill gradients 2"), "ok");
  EXPECT_EQ(trainer->Do("yield moments"), "ok");
  EXPECT_THAT(inference->Do("turn 5000"), StartsWith("ok"));
  EXPECT_EQ(inference->Do("fill kv 3"), "ok");
  EXPECT_EQ(inference->Do("yield kv"), "ok");
  const std::string turn = trainer->Do("turn 5000");
  EXPECT_THAT(turn, HasSubstr("gradients"));  // dropped
  EXPECT_THAT(turn, ::testing::Not(HasSubstr("moments")));
  EXPECT_EQ(trainer->Do("check moments 1"), "ok");
  EXPECT_EQ(trainer->Do("yield moments"), "ok");
  EXPECT_THAT(inference->Do("turn 5000"), StartsWith("ok"));
  EXPECT_EQ(inference->Do("check kv 3"), "ok");
  const v1::GetStateReply state = cluster.State();
  EXPECT_GT(state.pool().overlaid_bytes(), 0U);
  EXPECT_GT(state.pool().restored_bytes_total(), 0U);
}

TEST(Session, ASegmentMadeInsideATurnEvictsWhatOthersKeepThere) {
  Cluster cluster;
  auto trainer = cluster.Tenant("trainer");
  auto inference = cluster.Tenant("inference");
  ASSERT_THAT(trainer->Do("private moments 60000000 kept"), StartsWith("ok"));
  ASSERT_THAT(trainer->Do("turn 5000"), StartsWith("ok"));
  ASSERT_EQ(trainer->Do("fill moments 1"), "ok");
  ASSERT_EQ(trainer->Do("yield moments"), "ok");
  ASSERT_THAT(inference->Do("turn 5000"), StartsWith("ok"));
  ASSERT_THAT(inference->Do("private kv 50000000 plain"), StartsWith("ok"));
  ASSERT_EQ(inference->Do("fill kv 2"), "ok");
  ASSERT_EQ(inference->Do("yield"), "ok");
  ASSERT_THAT(trainer->Do("turn 5000"), StartsWith("ok"));
  EXPECT_EQ(trainer->Do("check moments 1"), "ok");
}

TEST(Session, ABlockMappedWritableByAnotherBecomesSharedOnlyAfterRemap) {
  Cluster cluster;
  auto inference = cluster.Tenant("inference");
  auto trainer = cluster.Tenant("trainer");
  ASSERT_THAT(inference->Do("private scratch 67108864 plain"), StartsWith("ok"));
  ASSERT_EQ(inference->Do("release scratch"), "ok");
  ASSERT_THAT(trainer->Do("shared weights 8388608"), StartsWith("ok"));
  ASSERT_THAT(trainer->Do("set job weights m"), StartsWith("ok"));
  inference->AwaitEvent("set:job:empty");
  ASSERT_THAT(inference->Do("map job"), StartsWith("ok"));
  EXPECT_EQ(inference->Do("attack job"), "ok mprotect EACCES");  // the writable map is gone
}

TEST(Session, WhatDoesNotFitIsRefusedWithWhatIsMissingAndWhoHoldsWhat) {
  Cluster cluster;
  auto trainer = cluster.Tenant("trainer");
  ASSERT_THAT(trainer->Do("shared weights 33554432"), StartsWith("ok"));
  const std::string answer = trainer->Do("private moments 50331648 plain");
  EXPECT_THAT(answer, HasSubstr("RESOURCE_EXHAUSTED"));
  EXPECT_THAT(answer, HasSubstr("16777216 are missing"));
  EXPECT_THAT(answer, HasSubstr("trainer shared 'weights' 33554432 bytes"));
  EXPECT_THAT(trainer->Do("private moments 16777216 plain"), StartsWith("ok"));  // nothing was left behind
}

TEST(Session, ANameIsTakenWhileItsProcessLives) {
  Cluster cluster;
  auto first = cluster.Tenant("trainer");
  auto second = cluster.Unconnected("trainer");
  EXPECT_THAT(second->Do("connect 1000"), HasSubstr("ALREADY_EXISTS"));
}

TEST(Session, WithoutAnArbiterConnectFailsInTime) {
  TempDir dir;
  TenantProcess tenant(dir.path(), "trainer", 100);
  EXPECT_THAT(tenant.Do("connect 100"), HasSubstr("no arbiter listens"));
}

TEST(Session, AHandOverThatMovesNoBytesTakesWellUnderTwoMilliseconds) {
  Cluster cluster;
  auto trainer = cluster.Tenant("trainer");
  auto inference = cluster.Tenant("inference");
  // Both ask all the time, so each wait is the other's short turn and two hand-overs.
  trainer->Begin("pingpong 200");
  inference->Begin("pingpong 200");
  for (TenantProcess* tenant : {trainer.get(), inference.get()}) {
    const std::vector<std::string> words = absl::StrSplit(tenant->End(), ' ');
    ASSERT_EQ(words[0], "ok");
    std::printf("mean wait of a turn: %s us\n", words[1].c_str());
    int64_t mean_us = 0;
    ASSERT_TRUE(absl::SimpleAtoi(words[1], &mean_us));
    EXPECT_LT(mean_us, 20000);  // a bound for a busy machine; the figure is printed
  }
}

}  // namespace
}  // namespace tandem::testing
