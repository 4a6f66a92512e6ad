#include "services/rewards/cell_text.h"

#include <charconv>

#include "absl/strings/str_cat.h"

namespace tandem::rewards {

absl::StatusOr<std::string> CellText(const nlohmann::json& cell) {
  if (cell.is_string()) return cell.get<std::string>();
  if (cell.is_boolean() || cell.is_number_integer()) return cell.dump();
  if (cell.is_number_float()) {
    char buffer[512];  // the largest double has 309 digits, the smallest 324 behind the point
    const auto end = std::to_chars(buffer, buffer + sizeof(buffer), cell.get<double>(), std::chars_format::fixed);
    if (end.ec == std::errc()) return std::string(buffer, end.ptr);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("is ", cell.is_null() ? "null" : cell.type_name(), ", not text or a number"));
}

}  // namespace tandem::rewards
