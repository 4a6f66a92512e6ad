#pragma once
// The one thing of the arbiter on disk: how often it was started in a directory. Raised and synced at each start, so
// that tokens (epoch x 2^32 + counter) grow over restarts. The caller holds the directory's lock.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace tandem::arbiter {

// Raises the number in `path` by one (a missing file counts as 0) and returns it. DATA_LOSS when the file holds no
// number.
absl::StatusOr<uint32_t> RaiseEpoch(const std::string& path);

}  // namespace tandem::arbiter
