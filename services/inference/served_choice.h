#pragma once
// Which weight set is served: a pure function of the sets that exist.
//
// A running job's set (made by another tenant, its note does not say that it ended) goes before everything, the newest
// first; then the set that this service loaded itself; then the last set of a job that has ended.

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "services/tenant/session.h"

namespace tandem::inference {

struct ServedChoice {
  std::optional<tenant::SetView> served;  // nothing: no set exists
  // The own set must be retired: a running job's set takes its place (and perhaps needs its memory).
  bool retire_own = false;
};

// `own_set_id` is the set this service made, 0 if none.
ServedChoice ChooseServed(const std::vector<tenant::SetView>& sets, uint64_t own_set_id);

// The job behind a set has ended: its owner's note says {"ended": true}.
bool JobEnded(const tenant::SetView& set);

// Whether a model may be loaded now: FAILED_PRECONDITION names the job that runs.
absl::Status MayLoad(const std::vector<tenant::SetView>& sets, uint64_t own_set_id);

// OK if the set's weights can be read at its version; UNAVAILABLE says what it waits for.
absl::Status Readable(const tenant::SetView& set);

}  // namespace tandem::inference
