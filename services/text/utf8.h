#pragma once
// UTF-8 as Rust's strings have it: what is not valid becomes U+FFFD, one for each maximal part of a character (Unicode
// chapter 3.9, "substitution of maximal subparts"), so that decoded text equals that of the tokenizers library.

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace tandem::text {

inline constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

struct Utf8Char {
  char32_t code = 0;  // U+FFFD if not valid
  size_t bytes = 0;   // bytes it takes, at least 1; of an invalid one those of the maximal part
  bool valid = false;
};

// The character at the start of `text`, which is not empty.
Utf8Char FirstChar(absl::string_view text);

// `text` with invalid parts replaced by U+FFFD.
std::string LossyUtf8(absl::string_view text);

bool IsValidUtf8(absl::string_view text);

}  // namespace tandem::text
