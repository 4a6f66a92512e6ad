#include "services/rewards/decimal.h"

#include <algorithm>

#include "absl/strings/ascii.h"

namespace tandem::rewards {

std::optional<Decimal> ParseDecimal(absl::string_view text) {
  Decimal number;
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) {
    number.negative = text.front() == '-';
    text.remove_prefix(1);
  }
  const size_t point = std::min(text.find('.'), text.size());
  absl::string_view whole = text.substr(0, point);
  absl::string_view fraction = point < text.size() ? text.substr(point + 1) : absl::string_view();
  if (whole.empty() && fraction.empty()) return std::nullopt;
  const auto all_digits = [](absl::string_view part) {
    return std::all_of(part.begin(), part.end(), absl::ascii_isdigit);
  };
  if (!all_digits(whole) || !all_digits(fraction)) return std::nullopt;
  while (!whole.empty() && whole.front() == '0') whole.remove_prefix(1);
  while (!fraction.empty() && fraction.back() == '0') fraction.remove_suffix(1);
  number.whole = std::string(whole);
  number.fraction = std::string(fraction);
  if (number.whole.empty() && number.fraction.empty()) number.negative = false;
  return number;
}

}  // namespace tandem::rewards
