#pragma once
// When a daemon that died is started again. Pure: a function of the times of its starts and deaths.
//
// The delay is 0.2 s and doubles with each death up to 10 s; a life of more than 60 s starts it anew. The fifth death
// within 60 s ends the attempts.

#include <deque>
#include <optional>

#include "absl/time/time.h"

namespace tandem::client {

class RestartPolicy {
 public:
  static constexpr absl::Duration kFirstDelay = absl::Milliseconds(200);
  static constexpr absl::Duration kLongestDelay = absl::Seconds(10);
  static constexpr absl::Duration kWindow = absl::Seconds(60);
  static constexpr int kMaxDeaths = 5;

  void OnStart(absl::Duration now) { started_ = now; }
  // How long to wait before the next start; nullopt: give up.
  std::optional<absl::Duration> OnDeath(absl::Duration now);

 private:
  absl::Duration started_;
  absl::Duration delay_ = kFirstDelay;
  std::deque<absl::Duration> deaths_;  // within the window, oldest first; at most kMaxDeaths
};

}  // namespace tandem::client
