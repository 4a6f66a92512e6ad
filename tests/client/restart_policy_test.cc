#include "services/client/supervisor/restart_policy.h"

#include <gtest/gtest.h>

namespace tandem::client {
namespace {

TEST(RestartPolicyTest, DelaysDoubleAndTheFifthDeathWithinAMinuteIsTheLast) {
  RestartPolicy policy;
  absl::Duration now = absl::Seconds(100);
  for (const int delay_ms : {200, 400, 800, 1600}) {
    policy.OnStart(now);
    now += absl::Seconds(1);
    EXPECT_EQ(policy.OnDeath(now), absl::Milliseconds(delay_ms));
  }
  policy.OnStart(now);
  EXPECT_EQ(policy.OnDeath(now + absl::Seconds(1)), std::nullopt);
}

TEST(RestartPolicyTest, DelayEndsAtTenSecondsWhenDeathsAreRare) {
  RestartPolicy policy;
  absl::Duration now = absl::Seconds(100);
  std::optional<absl::Duration> delay;
  for (int death = 0; death < 12; ++death) {
    policy.OnStart(now);
    now += absl::Seconds(20);
    delay = policy.OnDeath(now);
    ASSERT_TRUE(delay.has_value()) << death;
  }
  EXPECT_EQ(delay, RestartPolicy::kLongestDelay);
}

TEST(RestartPolicyTest, ALongLifeStartsTheDelayAnew) {
  RestartPolicy policy;
  policy.OnStart(absl::Seconds(0));
  EXPECT_EQ(policy.OnDeath(absl::Seconds(1)), absl::Milliseconds(200));
  policy.OnStart(absl::Seconds(1));
  EXPECT_EQ(policy.OnDeath(absl::Seconds(2)), absl::Milliseconds(400));
  policy.OnStart(absl::Seconds(2));
  EXPECT_EQ(policy.OnDeath(absl::Seconds(63)), absl::Milliseconds(200));
}

}  // namespace
}  // namespace tandem::client
