#include "arbiter/outbox.h"

#include <utility>

#include "absl/time/clock.h"

namespace tandem::arbiter {

bool Outbox::Push(Event event) {
  MutexLock lock(mutex_);
  if (closed_) return false;
  if (events_.size() >= kMaxEvents) {
    closed_ = true;
    events_.clear();
  } else {
    events_.push_back(std::move(event));
  }
  changed_.NotifyAll();
  return !closed_;
}

std::optional<Event> Outbox::Pop(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  MutexLock lock(mutex_);
  while (events_.empty() && !closed_) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return std::nullopt;
    changed_.WaitFor(mutex_, left);
  }
  if (events_.empty()) return std::nullopt;
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void Outbox::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
  events_.clear();
  changed_.NotifyAll();
}

bool Outbox::closed() const {
  MutexLock lock(mutex_);
  return closed_;
}

}  // namespace tandem::arbiter
