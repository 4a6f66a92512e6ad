#pragma once
// Exact decimal numbers as text, for comparing answers: no binary rounding, any length.

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace tandem::rewards {

// Canonical: no leading zeros before the point, no trailing zeros after it, no negative zero. So equal numbers have
// equal fields.
struct Decimal {
  bool negative = false;
  std::string whole;     // digits; empty for 0
  std::string fraction;  // digits
  bool operator==(const Decimal&) const = default;
};

// Reads the whole of `text`: an optional sign, ASCII digits, at most one point; at least one digit. No exponent, no
// separators, no spaces.
std::optional<Decimal> ParseDecimal(absl::string_view text);

}  // namespace tandem::rewards
