#pragma once
// Who has the turn. Legal transitions, one method each:
//
//   kFree      --StartSwitch-->   kSwitching   a waiter was chosen; bytes are being moved for it
//   kSwitching --FinishSwitch-->  kHeld        it gets a token
//   kSwitching --CancelSwitch-->  kFree        it died or withdrew
//   kHeld      --Revoke-->        kRevoking
//   kHeld | kRevoking --Yield-->  kFree
//   kHeld | kRevoking --LoseHolder--> kLost    the holder is dying; its end is not proved
//   kLost      --ProveHolderGone--> kFree
//
// Pure; when to call what is decided by turn_policy. Not thread-safe: guarded by the arbiter's mutex.

#include <deque>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "arbiter/state/ids.h"

namespace tandem::arbiter {

enum class TurnPhase { kFree, kSwitching, kHeld, kRevoking, kLost };

class TurnMachine {
 public:
  struct Waiter {
    SessionId session = 0;
    uint64_t request_id = 0;
    absl::Duration since;  // when it asked
  };

  // Tokens are epoch x 2^32 + 1, 2, ...; `epoch` grew since the arbiter before.
  explicit TurnMachine(uint32_t epoch) : last_token_(static_cast<Token>(epoch) << 32) {}

  // Queues a request. FAILED_PRECONDITION if the session waits already or holds the turn.
  absl::Status Request(SessionId session, uint64_t request_id, absl::Duration now);
  // Takes a session's request out of the queue; false if none with that id waits (it may be switching or granted).
  bool Withdraw(SessionId session, uint64_t request_id);
  // Takes a session out of the queue whatever it waits for.
  void Forget(SessionId session);

  void StartSwitch(SessionId session);  // a waiter
  void CancelSwitch();
  Token FinishSwitch(absl::Duration now);
  absl::Status CheckToken(SessionId session, Token token) const;  // FAILED_PRECONDITION for a stale token
  absl::Status Yield(SessionId session, Token token);
  void Revoke(absl::Duration soft_at, absl::Duration hard_at);
  void LoseHolder();
  void ProveHolderGone();

  TurnPhase phase() const { return phase_; }
  // The session that holds, is switched to, or was lost while it held; 0 when free.
  SessionId current() const { return current_.session; }
  const Waiter& current_request() const { return current_; }
  bool Holds(SessionId session) const;
  Token token() const { return token_; }  // of the turn held now, else 0
  absl::Duration held_since() const { return held_since_; }
  absl::Duration soft_at() const { return soft_at_; }
  absl::Duration hard_at() const { return hard_at_; }
  const std::deque<Waiter>& waiters() const { return waiters_; }
  const Waiter* FindWaiter(SessionId session) const;

  void CheckInvariants() const;

 private:
  void Free();

  TurnPhase phase_ = TurnPhase::kFree;
  Waiter current_;
  Token token_ = 0;
  Token last_token_;
  absl::Duration held_since_;
  absl::Duration soft_at_, hard_at_;  // while kRevoking
  std::deque<Waiter> waiters_;
};

const char* TurnPhaseName(TurnPhase phase);

}  // namespace tandem::arbiter
