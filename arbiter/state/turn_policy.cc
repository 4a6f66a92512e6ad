#include "arbiter/state/turn_policy.h"

#include <algorithm>

namespace tandem::arbiter {
namespace {

constexpr absl::Duration kIdleWake = absl::Seconds(1);

TurnDecision DecideFree(const TurnSnapshot& snapshot) {
  TurnDecision decision{.wake_after = kIdleWake};
  if (snapshot.blocked || snapshot.mover_busy) return decision;
  for (const TurnSnapshot::Waiter& waiter : snapshot.waiters) {
    if (!waiter.eligible) continue;
    decision.action = TurnAction::kStartSwitch;
    decision.session = waiter.session;
    break;
  }
  return decision;
}

TurnDecision DecideHeld(const TurnSnapshot& snapshot, const TurnLimits& limits) {
  struct Limit {
    bool applies;
    absl::Duration at;
    const char* reason;
  };
  const bool wanted = std::any_of(snapshot.waiters.begin(), snapshot.waiters.end(),
                                  [](const TurnSnapshot::Waiter& waiter) { return waiter.eligible; });
  const Limit rules[] = {
      {wanted, snapshot.held_since + limits.quantum, "quantum"},
      {true, snapshot.last_progress + limits.StallLimit(snapshot.longest_unit), "no progress"},
      {snapshot.stream_lost_since.has_value(),
       snapshot.stream_lost_since.value_or(absl::ZeroDuration()) + limits.reattach, "stream lost"},
  };
  TurnDecision decision{.wake_after = kIdleWake};
  for (const Limit& rule : rules) {
    if (!rule.applies) continue;
    if (snapshot.now >= rule.at) {
      decision.action = TurnAction::kRevoke;
      decision.reason = rule.reason;
      return decision;
    }
    decision.wake_after = std::min(decision.wake_after, rule.at - snapshot.now);
  }
  return decision;
}

TurnDecision DecideRevoking(const TurnSnapshot& snapshot) {
  TurnDecision decision{.wake_after = kIdleWake};
  if (snapshot.now >= snapshot.hard_at) {
    decision.action = TurnAction::kKill;
    decision.reason = "the hard deadline of a revoke passed";
  } else if (snapshot.now >= snapshot.soft_at && !snapshot.soft_warned) {
    decision.action = TurnAction::kWarnSoft;
  } else {
    const absl::Duration next = snapshot.soft_warned ? snapshot.hard_at : snapshot.soft_at;
    decision.wake_after = std::min(kIdleWake, next - snapshot.now);
  }
  return decision;
}

}  // namespace

TurnDecision DecideTurn(const TurnSnapshot& snapshot, const TurnLimits& limits) {
  switch (snapshot.phase) {
    case TurnPhase::kFree:
      return DecideFree(snapshot);
    case TurnPhase::kHeld:
      return DecideHeld(snapshot, limits);
    case TurnPhase::kRevoking:
      return DecideRevoking(snapshot);
    case TurnPhase::kSwitching:
    case TurnPhase::kLost:
      break;
  }
  return {.wake_after = kIdleWake};
}

}  // namespace tandem::arbiter
