#include "arbiter/answer_log.h"

#include <utility>

#include "absl/time/clock.h"

namespace tandem::arbiter {

Answer AnswerLog::Once(uint64_t request_id, absl::Duration timeout, const std::function<Answer()>& act) {
  if (request_id == 0) return act();
  const absl::Time deadline = absl::Now() + timeout;
  {
    MutexLock lock(mutex_);
    while (true) {
      const auto found = answers_.find(request_id);
      if (found == answers_.end()) break;
      if (found->second.has_value()) return *found->second;
      const absl::Duration left = deadline - absl::Now();
      if (left <= absl::ZeroDuration()) {
        return {absl::DeadlineExceededError("the first call with this request_id is still at work"), ""};
      }
      changed_.WaitFor(mutex_, left);
    }
    answers_[request_id] = std::nullopt;
  }
  Answer answer = act();
  MutexLock lock(mutex_);
  answers_[request_id] = answer;
  for (auto it = answers_.begin(); it != answers_.end() && answers_.size() > kRemembered;) {
    it = it->second.has_value() && it->first != request_id ? answers_.erase(it) : std::next(it);
  }
  changed_.NotifyAll();
  return answer;
}

}  // namespace tandem::arbiter
