#pragma once
// A dataset cell as text: JSONL files hold answers and prompts as strings, numbers or booleans.

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"

namespace tandem::rewards {

// Strings as they are, whole numbers in decimal, other numbers in the shortest decimal notation without exponent,
// "true" / "false". INVALID_ARGUMENT for null, lists and objects.
absl::StatusOr<std::string> CellText(const nlohmann::json& cell);

}  // namespace tandem::rewards
