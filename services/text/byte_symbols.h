#pragma once
// GPT-2's alphabet: vocabularies of byte-level tokenizers store the byte b as a printable character, itself where it is
// printable Latin-1, else the next free one from U+0100 on.

#include <array>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace tandem::text {

// UTF-8 of the character of each byte.
const std::array<std::string, 256>& ByteSymbols();

// The bytes that the symbols of `token` stand for; nullopt if a character is not a symbol.
std::optional<std::string> BytesOfSymbols(absl::string_view token);

}  // namespace tandem::text
