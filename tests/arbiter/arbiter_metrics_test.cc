#include "arbiter/arbiter_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include "common/base/status.h"

namespace tandem::arbiter {
namespace {

using ::testing::HasSubstr;

TEST(ArbiterMetrics, ShowTurnsByTenantTheHolderAndThePool) {
  auto registry = std::make_shared<prometheus::Registry>();
  ArbiterMetrics metrics(registry);
  PoolLedger ledger(1 << 20, 1 << 16, 1 << 20);
  ASSERT_TRUE(ledger.Create(1, "trainer", {.name = "m", .bytes = 4096, .usually_kept = true}).ok());
  metrics.SetPool(ledger);
  metrics.OnGrant("inference", absl::Milliseconds(2), 41);
  metrics.OnTurnEnd("inference", absl::Seconds(3));
  metrics.OnGrant("trainer", absl::Milliseconds(2), 42);
  metrics.OnKill("inference", "a reason");
  metrics.OnMove("trainer", /*evict=*/true, 4096);
  const std::string text = prometheus::TextSerializer().Serialize(registry->Collect());
  for (const char* line :
       {"tandem_arbiter_turns_total{tenant=\"trainer\"} 1", "tandem_arbiter_token 42",
        "tandem_arbiter_holder{tenant=\"trainer\"} 1", "tandem_arbiter_holder{tenant=\"inference\"} 0",
        "tandem_arbiter_turn_held_seconds_sum{tenant=\"inference\"} 3",
        "tandem_arbiter_turn_waited_seconds_count{tenant=\"trainer\"} 1", "tandem_arbiter_switches_total 2",
        "tandem_arbiter_pool_bytes{kind=\"private_union\"} 4096",
        "tandem_arbiter_pool_bytes{kind=\"host_reserved\"} 4096", "tandem_arbiter_kills_total{",
        "tandem_arbiter_moved_bytes_total{direction=\"evict\",tenant=\"trainer\"} 4096"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

}  // namespace
}  // namespace tandem::arbiter
