#pragma once
// tokenizer_config.json and chat_template.jinja: what a tokenizer directory says beside tokenizer.json.

#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace tandem::text {

struct TokenizerConfig {
  std::optional<std::string> eos_token, pad_token;
  std::optional<std::string> chat_template;
};

// Reads both files of `dir`; each may be missing. chat_template.jinja wins over the template in tokenizer_config.json;
// of a list of named templates the one named "default" counts.
absl::StatusOr<TokenizerConfig> LoadTokenizerConfig(const std::string& dir);

}  // namespace tandem::text
