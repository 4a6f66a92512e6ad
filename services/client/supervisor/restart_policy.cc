#include "services/client/supervisor/restart_policy.h"

#include <algorithm>

namespace tandem::client {

std::optional<absl::Duration> RestartPolicy::OnDeath(absl::Duration now) {
  if (now - started_ > kWindow) delay_ = kFirstDelay;
  deaths_.push_back(now);
  while (now - deaths_.front() > kWindow) deaths_.pop_front();
  if (deaths_.size() >= kMaxDeaths) return std::nullopt;
  const absl::Duration delay = delay_;
  delay_ = std::min(2 * delay_, kLongestDelay);
  return delay;
}

}  // namespace tandem::client
