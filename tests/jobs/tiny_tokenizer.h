#pragma once
// A tokenizer whose ids can be read: one id per printable ASCII character (its code), "ab" merged to 128, ChatML if
// asked for. End token 2.

#include <memory>
#include <string>

#include "services/text/tokenizer.h"

namespace tandem::jobs {

std::unique_ptr<text::Tokenizer> MakeTinyTokenizer(bool with_chat);

// The ids as text: characters, "ab" as "{ab}", special tokens as "<N>".
std::string Readable(const std::vector<int>& ids);

}  // namespace tandem::jobs
