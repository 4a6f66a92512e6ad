#pragma once
// Time as a dependency: production code reads SystemClock, tests move tests/testing/fake_clock.h by hand.

#include "absl/time/time.h"

namespace tandem {

// A monotonic clock. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // Time since an arbitrary fixed point; never goes back, counts suspend.
  virtual absl::Duration Now() const = 0;
};

// CLOCK_BOOTTIME.
class SystemClock final : public Clock {
 public:
  absl::Duration Now() const override;
};

}  // namespace tandem
