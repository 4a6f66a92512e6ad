#pragma once
// Events on their way to one stream. The arbiter pushes under its mutex and never waits; the stream's writer thread
// pops. When more events wait than a live stream can be behind, the outbox closes: the stream breaks, the tenant opens
// a new one, and its first message is the whole state, so nothing is lost. Thread-safe.

#include <deque>
#include <optional>

#include "arbiter/events.h"
#include "common/base/mutex.h"

namespace tandem::arbiter {

class Outbox {
 public:
  static constexpr size_t kMaxEvents = 256;

  // False if the outbox is closed, or closes because it is full.
  bool Push(Event event);
  // The next event, or nothing after `timeout` or when closed.
  std::optional<Event> Pop(absl::Duration timeout);
  // Ends the stream; events that wait are dropped.
  void Close();
  bool closed() const;

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Event> events_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tandem::arbiter
