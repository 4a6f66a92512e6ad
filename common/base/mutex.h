#pragma once
// std::mutex with clang thread-safety annotations, so that TSan (which knows std::mutex, not Debian's absl::Mutex)
// and clang's -Wthread-safety both understand the locking.

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

namespace tandem {

class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Waits are bounded: there is no Wait without a time-out.
class CondVar {
 public:
  // Waits until notified or `timeout` has passed; returns false on time-out. Spurious wake-ups happen: loop.
  bool WaitFor(Mutex& mutex, absl::Duration timeout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const std::chrono::nanoseconds bounded = absl::ToChronoNanoseconds(std::min(timeout, absl::Hours(24)));
    const bool notified = condition_.wait_for(lock, bounded) == std::cv_status::no_timeout;
    lock.release();
    return notified;
  }
  void NotifyAll() { condition_.notify_all(); }
  void NotifyOne() { condition_.notify_one(); }

 private:
  std::condition_variable condition_;
};

}  // namespace tandem
