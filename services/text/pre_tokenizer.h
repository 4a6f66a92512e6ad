#pragma once
// Cuts text into pre-tokens, the units that byte-pair encoding works on: GPT-2's pattern
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// by hand, in one pass and without a limit on length (a regex engine needs stack for long runs), optionally after every
// numeric character was cut off alone (Digits). Pure; thread-safe.

#include <functional>

#include "absl/strings/string_view.h"

namespace tandem::text {

// Calls `emit` for each pre-token of `text` (valid UTF-8) in order; together they are `text`.
void PreTokenize(absl::string_view text, bool split_digits, const std::function<void(absl::string_view)>& emit);

}  // namespace tandem::text
