#pragma once
// The classes of characters that pre-tokenizers distinguish, as of the Unicode versions in tokenizers 0.23: ICU's
// tables plus what was assigned after them.

namespace tandem::text {

enum class CharClass { kLetter, kNumber, kSpace, kOther };

// \p{L}, \p{N}, \s (White_Space), everything else.
CharClass ClassOf(char32_t code);

// What the Digits pre-tokenizer splits: Rust's char::is_numeric (Nd, Nl, No), of a newer Unicode than ClassOf.
bool IsNumeric(char32_t code);

}  // namespace tandem::text
