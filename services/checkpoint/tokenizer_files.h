#pragma once
// The files of a model directory beside its config and weights, which every copy of the model takes with it.

#include <string>

#include "absl/status/status.h"

namespace tandem {

// Copies tokenizer files, chat template and generation_config.json from `source` to `target`, those that exist, and
// syncs each. Bytes are unchanged.
absl::Status CopyTokenizerFiles(const std::string& source, const std::string& target);

}  // namespace tandem
