#pragma once
// numeric_match: 1 if a completion's answer equals the gold answer as a decimal number, else 0; nothing if the gold
// answer is no number.
//
// The answer of a text is what follows its last "####", else the content of its last balanced \boxed{}, else its last
// number. From it "$", ",", "%", spaces (with a backslash before them, as LaTeX writes them, too) and a final full
// stop are dropped; what remains must be a decimal number as a whole.

#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "services/rewards/decimal.h"
#include "services/rewards/reward.h"

namespace tandem::rewards {

// The answer of `text`; nullopt if it has none or it is no number.
std::optional<Decimal> ExtractAnswer(absl::string_view text);

// Reads spec.answer_column. Stateless; thread-safe.
std::unique_ptr<Reward> MakeNumericMatch(const RewardSpec& spec);

}  // namespace tandem::rewards
