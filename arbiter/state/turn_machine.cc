#include "arbiter/state/turn_machine.h"

#include <algorithm>
#include <set>

#include "common/base/status.h"

namespace tandem::arbiter {

const char* TurnPhaseName(TurnPhase phase) {
  switch (phase) {
    case TurnPhase::kFree:
      return "free";
    case TurnPhase::kSwitching:
      return "switching";
    case TurnPhase::kHeld:
      return "held";
    case TurnPhase::kRevoking:
      return "revoking";
    case TurnPhase::kLost:
      return "lost";
  }
  return "?";
}

absl::Status TurnMachine::Request(SessionId session, uint64_t request_id, absl::Duration now) {
  if (FindWaiter(session) != nullptr) return absl::FailedPreconditionError("a request for the turn waits already");
  if (current_.session == session) return absl::FailedPreconditionError("the session holds the turn or is about to");
  waiters_.push_back({session, request_id, now});
  return absl::OkStatus();
}

bool TurnMachine::Withdraw(SessionId session, uint64_t request_id) {
  return std::erase_if(waiters_, [&](const Waiter& waiter) {
           return waiter.session == session && waiter.request_id == request_id;
         }) > 0;
}

void TurnMachine::Forget(SessionId session) {
  std::erase_if(waiters_, [&](const Waiter& waiter) { return waiter.session == session; });
}

void TurnMachine::StartSwitch(SessionId session) {
  const Waiter* waiter = FindWaiter(session);
  TANDEM_CHECK(phase_ == TurnPhase::kFree && waiter != nullptr, TurnPhaseName(phase_), " ", session);
  current_ = *waiter;
  Forget(session);
  phase_ = TurnPhase::kSwitching;
}

void TurnMachine::CancelSwitch() {
  TANDEM_CHECK(phase_ == TurnPhase::kSwitching, TurnPhaseName(phase_));
  Free();
}

Token TurnMachine::FinishSwitch(absl::Duration now) {
  TANDEM_CHECK(phase_ == TurnPhase::kSwitching, TurnPhaseName(phase_));
  phase_ = TurnPhase::kHeld;
  token_ = ++last_token_;
  held_since_ = now;
  return token_;
}

bool TurnMachine::Holds(SessionId session) const {
  return current_.session == session && (phase_ == TurnPhase::kHeld || phase_ == TurnPhase::kRevoking);
}

absl::Status TurnMachine::CheckToken(SessionId session, Token token) const {
  if (Holds(session) && token == token_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("token ", token, " is stale: the session does not hold that turn (last token ", last_token_, ")"));
}

absl::Status TurnMachine::Yield(SessionId session, Token token) {
  TANDEM_RETURN_IF_ERROR(CheckToken(session, token));
  Free();
  return absl::OkStatus();
}

void TurnMachine::Revoke(absl::Duration soft_at, absl::Duration hard_at) {
  TANDEM_CHECK(phase_ == TurnPhase::kHeld, TurnPhaseName(phase_));
  phase_ = TurnPhase::kRevoking;
  soft_at_ = soft_at;
  hard_at_ = hard_at;
}

void TurnMachine::LoseHolder() {
  TANDEM_CHECK(phase_ == TurnPhase::kHeld || phase_ == TurnPhase::kRevoking, TurnPhaseName(phase_));
  phase_ = TurnPhase::kLost;
}

void TurnMachine::ProveHolderGone() {
  TANDEM_CHECK(phase_ == TurnPhase::kLost, TurnPhaseName(phase_));
  Free();
}

const TurnMachine::Waiter* TurnMachine::FindWaiter(SessionId session) const {
  for (const Waiter& waiter : waiters_) {
    if (waiter.session == session) return &waiter;
  }
  return nullptr;
}

void TurnMachine::Free() {
  phase_ = TurnPhase::kFree;
  current_ = {};
  token_ = 0;
}

void TurnMachine::CheckInvariants() const {
  TANDEM_CHECK((phase_ == TurnPhase::kFree) == (current_.session == 0), TurnPhaseName(phase_));
  const bool with_token = phase_ == TurnPhase::kHeld || phase_ == TurnPhase::kRevoking || phase_ == TurnPhase::kLost;
  TANDEM_CHECK(with_token == (token_ != 0), TurnPhaseName(phase_), " ", token_);
  TANDEM_CHECK(token_ <= last_token_, token_);
  std::set<SessionId> seen;
  for (const Waiter& waiter : waiters_) {
    TANDEM_CHECK(waiter.session != current_.session && seen.insert(waiter.session).second, waiter.session);
  }
}

}  // namespace tandem::arbiter
