#include "common/base/clock.h"

#include <ctime>

namespace tandem {

absl::Duration SystemClock::Now() const {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return absl::DurationFromTimespec(now);
}

}  // namespace tandem
