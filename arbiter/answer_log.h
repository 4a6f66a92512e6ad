#pragma once
// The last answers given to one session, so that a verb repeated after a broken connection is answered again instead of
// done again. A repetition that arrives while the first is at work waits for its answer. Thread-safe.

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/base/mutex.h"

namespace tandem::arbiter {

struct Answer {
  absl::Status status;
  std::string bytes;  // the serialised reply
};

class AnswerLog {
 public:
  static constexpr size_t kRemembered = 64;

  // The remembered answer of `request_id`, or what `act` returns, remembered. request_id 0 is never remembered.
  // DEADLINE_EXCEEDED if the first call with this id is still at work after `timeout`.
  Answer Once(uint64_t request_id, absl::Duration timeout, const std::function<Answer()>& act);

 private:
  Mutex mutex_;
  CondVar changed_;
  std::map<uint64_t, std::optional<Answer>> answers_ ABSL_GUARDED_BY(mutex_);  // no value: at work
};

}  // namespace tandem::arbiter
