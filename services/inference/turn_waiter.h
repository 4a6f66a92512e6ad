#pragma once
// Waits for turns on a thread of its own, so that the engine's thread can serve its inbox and its deadlines meanwhile.
//
//   Want() -> ... -> `on_ready` is called -> Take() gives the turn (or why there is none) -> Want() again
// Want and Take may be called from one thread (the engine's); on_ready comes from the waiter's.

#include <functional>
#include <optional>
#include <thread>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "services/tenant/session.h"

namespace tandem::inference {

class TurnWaiter {
 public:
  // `session` must outlive the waiter.
  TurnWaiter(tenant::Session& session, std::function<void()> on_ready);
  // Withdraws what is wanted; a turn that was not taken is yielded. Waits at most one request's time-out.
  ~TurnWaiter();

  // Asks for a turn unless one is asked for or waits to be taken already.
  void Want();
  // The turn, once it is there; nullopt until then. An error (other than a time-out, after which the waiter goes on)
  // means that the session is lost.
  std::optional<absl::StatusOr<tenant::Turn>> Take();

 private:
  void Run();

  tenant::Session& session_;
  const std::function<void()> on_ready_;
  Mutex mutex_;
  CondVar changed_;
  bool wanted_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::StatusOr<tenant::Turn>> result_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // last: starts when everything else is there
};

}  // namespace tandem::inference
