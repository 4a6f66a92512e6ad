#pragma once
// Expectations on one record of a tokenizer's reference values (written by Python from the tokenizers library).

#include "nlohmann/json.hpp"
#include "services/text/tokenizer.h"

namespace tandem::text {

// {"text", "ids", "ids_special", "decoded", "decoded_skip"} and perhaps {"stream", "stream_skip"}.
void ExpectSnippet(const Tokenizer& tokenizer, const nlohmann::json& snippet);

// {"messages", "add_generation_prompt", "text", "ids"}.
void ExpectChat(const Tokenizer& tokenizer, const nlohmann::json& chat);

}  // namespace tandem::text
