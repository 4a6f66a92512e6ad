#include "services/inference/turn_waiter.h"

#include <utility>

namespace tandem::inference {
namespace {

// How long the waiter may outlive its owner's wish; the request is made again at once.
constexpr absl::Duration kRequestTimeout = absl::Seconds(2);

}  // namespace

TurnWaiter::TurnWaiter(tenant::Session& session, std::function<void()> on_ready)
    : session_(session), on_ready_(std::move(on_ready)), thread_([this] { Run(); }) {}

TurnWaiter::~TurnWaiter() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void TurnWaiter::Want() {
  MutexLock lock(mutex_);
  wanted_ = true;
  changed_.NotifyAll();
}

std::optional<absl::StatusOr<tenant::Turn>> TurnWaiter::Take() {
  MutexLock lock(mutex_);
  if (result_) wanted_ = false;
  return std::exchange(result_, std::nullopt);
}

void TurnWaiter::Run() {
  while (true) {
    {
      MutexLock lock(mutex_);
      while (!stopping_ && (!wanted_ || result_)) changed_.WaitFor(mutex_, absl::Seconds(1));
      if (stopping_) return;
    }
    absl::StatusOr<tenant::Turn> turn = session_.RequestTurn(kRequestTimeout);
    if (absl::IsDeadlineExceeded(turn.status())) continue;
    {
      MutexLock lock(mutex_);
      result_ = std::move(turn);
    }
    on_ready_();
  }
}

}  // namespace tandem::inference
