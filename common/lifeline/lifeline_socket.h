#pragma once
// Making lifelines: the arbiter's listening socket and the tenant's connection. Descriptors are close-on-exec.

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/unique_fd.h"

namespace tandem::lifeline {

// Listens on `path` with mode 0660, replacing a stale socket file: the caller holds the directory's lock.
absl::StatusOr<UniqueFd> Listen(const std::string& path);

// Accepts one waiting connection; UNAVAILABLE when none waits.
absl::StatusOr<UniqueFd> Accept(int listener);

// Connects to `path`, trying again until `timeout` while nobody listens there yet.
absl::StatusOr<UniqueFd> Connect(const std::string& path, absl::Duration timeout);

}  // namespace tandem::lifeline
