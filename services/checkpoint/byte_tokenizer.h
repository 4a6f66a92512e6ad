#pragma once
// The tokenizer of a new small model: one token per byte, no merges, and the four special tokens of ChatML models.
// Ids: 0 <|endoftext|>, 1 <|im_start|>, 2 <|im_end|>, 3 <|pad|>, 4 + b for the byte b.

#include <string>

namespace tandem {

inline constexpr int kByteTokenizerVocab = 260;
inline constexpr int kByteEndOfText = 0, kByteImStart = 1, kByteImEnd = 2, kBytePad = 3;

// The text of tokenizer.json, in the format of Hugging Face tokenizers.
std::string ByteTokenizerJson();
// The text of tokenizer_config.json. The end token is <|endoftext|>; with `chat`, <|im_end|> and a plain ChatML
// template.
std::string ByteTokenizerConfigJson(bool chat);

}  // namespace tandem
