// A session's life against a real arbiter, in real processes: segments, sets, maps, turns, versions.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tandem::testing
