#pragma once
// Expectations on one record of a tokenizer's reference values (written by Python from the tokenizers library).

#include "nlohmann/json.hpp"
#include "services/text/tokenizer.h"

namespace tandem::text {

// {"ids", "decoded", "decoded_skip"} and perhaps {"stream", "stream_skip"}: what the ids become.
void ExpectDecodes(const Tokenizer& tokenizer, const nlohmann::json& decode);

// {"text", "ids", "ids_special"} and what `ids_special` become, as above.
void ExpectSnippet(const Tokenizer& tokenizer, const nlohmann::json& snippet);

// {"messages", "add_generation_prompt", "text", "ids"}.
void ExpectChat(const Tokenizer& tokenizer, const nlohmann::json& chat);

}  // namespace tandem::text
