#pragma once
// tokenizer.json, checked and reduced to what byte-level BPE needs.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/text/added_tokens.h"
#include "services/text/bpe.h"

namespace tandem::text {

struct TokenizerSpec {
  bool split_digits = false;
  std::vector<std::string> vocab;  // by id, added tokens included; empty: no token has this id
  std::vector<AddedToken> added;
  Bpe::ByteTokens byte_tokens{};
  std::vector<Bpe::Merge> merges;
};

// Reads the text of a tokenizer.json: model BPE, pre-tokenizer ByteLevel or [Digits, ByteLevel], decoder ByteLevel, no
// normalizer; a post-processor ByteLevel changes no ids and is accepted. Every other component is refused by name with
// INVALID_ARGUMENT, and so is a vocabulary or merge that does not fit together. Truncation and padding are the caller's
// business, as in transformers, and ignored. `where` stands in errors.
absl::StatusOr<TokenizerSpec> ParseTokenizerJson(const std::string& text, const std::string& where);

}  // namespace tandem::text
