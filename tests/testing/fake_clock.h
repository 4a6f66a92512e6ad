#pragma once
// A clock that only the test moves.

#include <atomic>
#include <cstdint>

#include "common/base/clock.h"

namespace tandem::testing {

class FakeClock final : public Clock {
 public:
  absl::Duration Now() const override { return absl::Nanoseconds(now_ns_.load()); }
  void Advance(absl::Duration by) { now_ns_ += absl::ToInt64Nanoseconds(by); }

 private:
  std::atomic<int64_t> now_ns_{1'000'000'000};
};

}  // namespace tandem::testing
