#pragma once
// The trainer's turn: taken before work on the device, lent back between units of work when the arbiter asks for it,
// and never held while the trainer waits for another tenant. One thread (the job's).

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "services/tenant/session.h"

namespace tandem::trainer {

// What a yield keeps; see tenant::Turn::Yield.
using Keep = std::vector<const tenant::Segment*>;

class TurnKeeper {
 public:
  // `check` says whether the job should go on (CANCELLED, ABORTED); it is asked between units and while waiting.
  TurnKeeper(tenant::Session& session, const Clock& clock, std::function<absl::Status()> check);

  // Takes the turn unless it is held. DEADLINE_EXCEEDED after ten minutes; UNAVAILABLE when the arbiter is gone.
  absl::Status Acquire();
  // Between two units of work: reports progress, asks `check` (gives the turn up on its error), and if the arbiter
  // wants the turn, yields keeping `keep` and takes it again. DATA_LOSS if a kept segment did not come back.
  absl::Status BetweenUnits(const Keep& keep);
  // Gives the turn back unless it is not held.
  absl::Status Yield(const Keep& keep);
  bool held() const { return turn_.has_value(); }

  // The held turn's write window.
  absl::Status BeginWrite(uint64_t set_id);
  absl::StatusOr<uint64_t> Commit(uint64_t set_id, const std::string& note);

  // Totals: turns taken, and seconds spent in waiting for them and in giving them back.
  uint64_t turns() const { return turns_; }
  double switch_seconds() const { return switch_seconds_; }

 private:
  tenant::Session& session_;
  const Clock& clock_;
  const std::function<absl::Status()> check_;
  std::optional<tenant::Turn> turn_;
  uint64_t turns_ = 0;
  double switch_seconds_ = 0;
};

}  // namespace tandem::trainer
