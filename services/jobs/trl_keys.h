#pragma once
// TRL and transformers training arguments that the job file knows but Tandem does not act on, so that a TRL config can
// be pasted.

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tandem::jobs {

struct TrlKey {
  const char* name;
  // Values that mean what Tandem does anyway, separated by "|" and accepted silently; any other is refused. Null: the
  // key has no meaning here, any value is accepted with a warning.
  const char* accepted;
  const char* note;  // why, or the remedy
};

// The entry of `key`; null if it is none of these.
const TrlKey* FindTrlKey(absl::string_view key);

// Whether `value` is one of entry.accepted; numbers are compared as numbers, case does not matter, null is "null".
bool IsAccepted(const TrlKey& entry, absl::string_view value);

}  // namespace tandem::jobs
