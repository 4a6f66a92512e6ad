#pragma once
// A command whose caller waits for its status: one thread calls Done once, another waits.

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace tandem::inference {

class Ticket {
 public:
  void Done(const absl::Status& status) {
    MutexLock lock(mutex_);
    status_ = status;
    changed_.NotifyAll();
  }
  absl::Status Wait(absl::Duration timeout, const Clock& clock) {
    const absl::Duration deadline = clock.Now() + timeout;
    MutexLock lock(mutex_);
    while (!status_) {
      const absl::Duration left = deadline - clock.Now();
      if (left <= absl::ZeroDuration()) {
        return absl::DeadlineExceededError(absl::StrCat("not done within ", absl::FormatDuration(timeout),
                                                        ": another tenant has the turn; it goes on in the background"));
      }
      changed_.WaitFor(mutex_, left);
    }
    return *status_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::optional<absl::Status> status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tandem::inference
