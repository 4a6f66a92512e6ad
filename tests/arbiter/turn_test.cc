// turn_machine and turn_policy: stepped by hand, in random histories, and together under a simulated clock.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "arbiter/state/turn_machine.h"
#include "arbiter/state/turn_policy.h"
#include "tests/testing/status_matchers.h"

namespace tandem::arbiter {
namespace {

using ::tandem::testing::IsOk;
using ::tandem::testing::StatusIs;
using ::testing::HasSubstr;

constexpr absl::Duration kNow = absl::Seconds(100);

TEST(TurnMachine, AGrantHasATokenAboveAllEarlierOnesAndOfTheEpoch) {
  TurnMachine machine(/*epoch=*/3);
  ASSERT_THAT(machine.Request(1, 1, kNow), IsOk());
  machine.StartSwitch(1);
  EXPECT_EQ(machine.token(), 0U);
  EXPECT_EQ(machine.FinishSwitch(kNow), (uint64_t{3} << 32) + 1);
  EXPECT_TRUE(machine.Holds(1));
}

TEST(TurnMachine, ALateYieldOfAnOldTokenIsRefusedAndChangesNothing) {
  TurnMachine machine(1);
  ASSERT_THAT(machine.Request(1, 1, kNow), IsOk());
  machine.StartSwitch(1);
  const Token first = machine.FinishSwitch(kNow);
  ASSERT_THAT(machine.Yield(1, first), IsOk());
  ASSERT_THAT(machine.Request(1, 2, kNow), IsOk());
  machine.StartSwitch(1);
  const Token second = machine.FinishSwitch(kNow);
  EXPECT_THAT(machine.Yield(1, first), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("stale")));
  EXPECT_THAT(machine.Yield(2, second), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("stale")));
  EXPECT_EQ(machine.token(), second);
}

TEST(TurnMachine, ASessionWaitsOnceAndNotWhileItHolds) {
  TurnMachine machine(1);
  ASSERT_THAT(machine.Request(1, 1, kNow), IsOk());
  EXPECT_THAT(machine.Request(1, 2, kNow), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("waits")));
  machine.StartSwitch(1);
  EXPECT_THAT(machine.Request(1, 2, kNow), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("holds")));
  EXPECT_FALSE(machine.Withdraw(1, 1));  // too late
}

TEST(TurnMachine, ALostHoldersTurnIsFreeOnlyWhenItsEndIsProved) {
  TurnMachine machine(1);
  ASSERT_THAT(machine.Request(1, 1, kNow), IsOk());
  machine.StartSwitch(1);
  machine.FinishSwitch(kNow);
  machine.LoseHolder();
  EXPECT_EQ(machine.phase(), TurnPhase::kLost);
  EXPECT_FALSE(machine.Holds(1));
  machine.ProveHolderGone();
  EXPECT_EQ(machine.phase(), TurnPhase::kFree);
}

TEST(TurnMachineDeathTest, IllegalTransitionsEndTheProcess) {
  TurnMachine machine(1);
  EXPECT_DEATH(machine.FinishSwitch(kNow), "broken invariant");
  EXPECT_DEATH(machine.Revoke(kNow, kNow), "broken invariant");
  EXPECT_DEATH(machine.StartSwitch(5), "broken invariant");
}

TEST(TurnMachine, TokensOnlyGrowAndOneHoldsInAnyHistory) {
  std::mt19937 random(7);
  TurnMachine machine(1);
  Token last = 0;
  std::vector<uint64_t> requests(6, 0);
  int grants = 0;
  for (int step = 0; step < 100000; ++step) {
    const SessionId session = 1 + random() % 5;
    const TurnPhase phase = machine.phase();
    switch (random() % 7) {
      case 0:
      case 1:
        machine.Request(session, ++requests[session], kNow).IgnoreError();
        break;
      case 2:
        machine.Withdraw(session, requests[session]);
        break;
      case 3:
        if (phase == TurnPhase::kFree && machine.FindWaiter(session) != nullptr) machine.StartSwitch(session);
        break;
      case 4:
        if (phase == TurnPhase::kSwitching && random() % 4 == 0) {
          machine.CancelSwitch();
        } else if (phase == TurnPhase::kSwitching) {
          const Token token = machine.FinishSwitch(kNow);
          EXPECT_GT(token, last);
          last = token;
          ++grants;
        }
        break;
      case 5: {
        const bool yielded = machine.Yield(session, last).ok();
        const bool held = phase == TurnPhase::kHeld || phase == TurnPhase::kRevoking;
        EXPECT_EQ(yielded, held && machine.phase() == TurnPhase::kFree);
        break;
      }
      case 6:
        if (phase == TurnPhase::kHeld) machine.Revoke(kNow, kNow);
        if (phase == TurnPhase::kRevoking) machine.LoseHolder();
        if (phase == TurnPhase::kLost) machine.ProveHolderGone();
        break;
    }
    machine.CheckInvariants();
  }
  EXPECT_GT(grants, 1000);
}

TurnSnapshot Held() {
  TurnSnapshot snapshot;
  snapshot.phase = TurnPhase::kHeld;
  snapshot.held_since = snapshot.last_progress = snapshot.now = kNow;
  snapshot.longest_unit = absl::Seconds(2);
  return snapshot;
}

TEST(TurnPolicy, FirstComeFirstServedAmongThoseWhoMay) {
  TurnSnapshot snapshot;
  snapshot.waiters = {{.session = 4, .eligible = false}, {.session = 2}, {.session = 3}};
  const TurnDecision decision = DecideTurn(snapshot, {});
  EXPECT_EQ(decision.action, TurnAction::kStartSwitch);
  EXPECT_EQ(decision.session, 2U);
  snapshot.blocked = true;
  EXPECT_EQ(DecideTurn(snapshot, {}).action, TurnAction::kNone);
  snapshot.blocked = false;
  snapshot.mover_busy = true;
  EXPECT_EQ(DecideTurn(snapshot, {}).action, TurnAction::kNone);
}

TEST(TurnPolicy, AQuantumEndsATurnOnlyIfSomeoneWaits) {
  const TurnLimits limits{.quantum = absl::Seconds(1)};
  TurnSnapshot snapshot = Held();
  snapshot.now += absl::Seconds(5);
  EXPECT_EQ(DecideTurn(snapshot, limits).action, TurnAction::kNone);
  snapshot.waiters = {{.session = 2, .eligible = false}};
  EXPECT_EQ(DecideTurn(snapshot, limits).action, TurnAction::kNone);
  snapshot.waiters = {{.session = 2}};
  const TurnDecision decision = DecideTurn(snapshot, limits);
  EXPECT_EQ(decision.action, TurnAction::kRevoke);
  EXPECT_EQ(decision.reason, "quantum");
  snapshot.now = kNow + absl::Milliseconds(400);
  EXPECT_EQ(DecideTurn(snapshot, limits).action, TurnAction::kNone);
  EXPECT_EQ(DecideTurn(snapshot, limits).wake_after, absl::Milliseconds(600));
}

TEST(TurnPolicy, AHungOrUnreachableHolderIsRevokedWhoeverWaits) {
  const TurnLimits limits{.stall_floor = absl::Seconds(30), .reattach = absl::Seconds(2)};
  TurnSnapshot snapshot = Held();
  snapshot.now += absl::Seconds(29);
  EXPECT_EQ(DecideTurn(snapshot, limits).action, TurnAction::kNone);
  snapshot.now += absl::Seconds(1);
  EXPECT_EQ(DecideTurn(snapshot, limits).reason, "no progress");
  snapshot = Held();
  snapshot.stream_lost_since = kNow;
  snapshot.now += absl::Seconds(2);
  EXPECT_EQ(DecideTurn(snapshot, limits).reason, "stream lost");
}

TEST(TurnPolicy, ARevokeWarnsAtTheSoftDeadlineAndKillsAtTheHardOne) {
  TurnSnapshot snapshot = Held();
  snapshot.phase = TurnPhase::kRevoking;
  snapshot.soft_at = kNow + absl::Seconds(2);
  snapshot.hard_at = kNow + absl::Seconds(6);
  EXPECT_EQ(DecideTurn(snapshot, {}).action, TurnAction::kNone);
  snapshot.now = snapshot.soft_at;
  EXPECT_EQ(DecideTurn(snapshot, {}).action, TurnAction::kWarnSoft);
  snapshot.soft_warned = true;
  EXPECT_EQ(DecideTurn(snapshot, {}).action, TurnAction::kNone);
  snapshot.now = snapshot.hard_at;
  EXPECT_EQ(DecideTurn(snapshot, {}).action, TurnAction::kKill);
}

// Tenants that ask again at once and yield at a random moment up to the hard limit after a revoke, some never (killed).
TEST(TurnPolicy, TheNthWaiterWaitsAtMostNTimesQuantumAndHardLimit) {
  const TurnLimits limits{.quantum = absl::Milliseconds(500), .revoke_grace = absl::Milliseconds(1000)};
  const absl::Duration unit = absl::Milliseconds(300);
  const absl::Duration step = absl::Milliseconds(10);
  const absl::Duration turn_bound = limits.quantum + limits.HardLimit(unit) + 2 * step;
  std::mt19937 random(3);
  TurnMachine machine(1);
  std::vector<uint64_t> requests(5, 0);
  std::vector<size_t> place(5, 0);  // in the queue when it asked, from 1
  absl::Duration yields_at;
  int grants = 0;
  TurnSnapshot snapshot;
  for (absl::Duration now; now < absl::Seconds(3000); now += step) {
    for (SessionId session = 1; session <= 4; ++session) {
      if (random() % 50 != 0 || !machine.Request(session, ++requests[session], now).ok()) continue;
      place[session] = machine.waiters().size() + (machine.phase() == TurnPhase::kFree ? 0 : 1);
    }
    const bool held = machine.phase() == TurnPhase::kHeld || machine.phase() == TurnPhase::kRevoking;
    if (held && now >= yields_at) {
      ASSERT_THAT(machine.Yield(machine.current(), machine.token()), IsOk());
    }
    snapshot.now = snapshot.last_progress = now;
    snapshot.phase = machine.phase();
    snapshot.waiters.clear();
    for (const auto& waiter : machine.waiters()) snapshot.waiters.push_back({.session = waiter.session});
    snapshot.held_since = machine.held_since();
    snapshot.longest_unit = unit;
    snapshot.soft_at = machine.soft_at();
    snapshot.hard_at = machine.hard_at();
    snapshot.soft_warned = true;
    const TurnDecision decision = DecideTurn(snapshot, limits);
    if (decision.action == TurnAction::kStartSwitch) {
      machine.StartSwitch(decision.session);
      EXPECT_LE(now - machine.current_request().since, place[decision.session] * turn_bound);
      machine.FinishSwitch(now);
      yields_at = absl::InfiniteDuration();
      ++grants;
    } else if (decision.action == TurnAction::kRevoke) {
      machine.Revoke(now + limits.SoftLimit(unit), now + limits.HardLimit(unit));
      if (random() % 4 != 0) yields_at = now + step * (random() % 150);
    } else if (decision.action == TurnAction::kKill) {
      machine.LoseHolder();
      machine.ProveHolderGone();
    }
    machine.CheckInvariants();
  }
  EXPECT_GT(grants, 500);
}

}  // namespace
}  // namespace tandem::arbiter
