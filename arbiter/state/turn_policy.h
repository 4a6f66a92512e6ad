#pragma once
// What to do next about the turn: a pure function of a snapshot. First come, first served; the holder is revoked after
// its quantum only if someone waits, and whatever waits when its progress stands still or its stream is gone too long.
//
// The n-th waiter waits at most n x (quantum + hard limit + proof of death + bytes moved / bandwidth).

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "arbiter/state/turn_machine.h"

namespace tandem::arbiter {

struct TurnLimits {
  absl::Duration quantum = absl::Milliseconds(1000);
  absl::Duration revoke_grace = absl::Milliseconds(5000);  // added to the hard limit
  absl::Duration stall_floor = absl::Seconds(60);          // least stall limit
  absl::Duration reattach = absl::Milliseconds(2000);      // a holder may be without a stream this long

  // From Revoke to the warning: one unit of work is finished by then.
  absl::Duration SoftLimit(absl::Duration longest_unit) const { return longest_unit; }
  // From Revoke to SIGKILL.
  absl::Duration HardLimit(absl::Duration longest_unit) const { return 2 * longest_unit + revoke_grace; }
  // Without progress this long, a holder counts as hung.
  absl::Duration StallLimit(absl::Duration longest_unit) const { return std::max(stall_floor, 10 * longest_unit); }
};

struct TurnSnapshot {
  absl::Duration now;
  TurnPhase phase = TurnPhase::kFree;
  struct Waiter {
    SessionId session = 0;
    bool eligible = true;  // its stream is open and none of its bytes are quarantined
  };
  std::vector<Waiter> waiters;  // in order of arrival
  bool blocked = false;         // the end of a process is not proved: no grants
  bool mover_busy = false;      // copies of a cancelled switch still run
  // Of the holder:
  absl::Duration held_since;
  absl::Duration last_progress;
  std::optional<absl::Duration> stream_lost_since;
  absl::Duration longest_unit;
  absl::Duration soft_at, hard_at;  // while kRevoking
  bool soft_warned = false;
};

enum class TurnAction { kNone, kStartSwitch, kRevoke, kWarnSoft, kKill };

struct TurnDecision {
  TurnAction action = TurnAction::kNone;
  SessionId session = 0;      // kStartSwitch: the waiter
  std::string reason = {};    // kRevoke, kKill
  absl::Duration wake_after;  // without another event, decide again after this long
};

TurnDecision DecideTurn(const TurnSnapshot& snapshot, const TurnLimits& limits);

}  // namespace tandem::arbiter
