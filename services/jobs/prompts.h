#pragma once
// Dataset rows to token ids, for training and evaluation. All rows are tokenised at loading, so that a row that does
// not fit is refused before the first step. Pure functions; the tokenizer is thread-safe.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/jobs/dataset.h"
#include "services/jobs/job_spec.h"
#include "services/text/tokenizer.h"

namespace tandem::jobs {

struct Prompt {
  int64_t row = 0;   // index into Dataset::rows
  std::string text;  // what was encoded: the rendered chat or the plain text
  std::vector<int> ids;
};

// Prompts for generation. A string becomes one user message (after system_prompt, if given) when `chat` says so and
// is rendered with the generation prompt; else plain text with the tokenizer's special tokens. A list of
// {role, content} is always a chat.
// A prompt with more than context - max_completion_length tokens is INVALID_ARGUMENT (count and line numbers), unless
// max_prompt_length is set: then prompts with more than that are left out first.
absl::StatusOr<std::vector<Prompt>> MakePrompts(const Dataset& dataset, const DatasetSpec& spec,
                                                const text::Tokenizer& tokenizer, int64_t context,
                                                int64_t max_completion_length);

struct SftRow {
  int64_t row = 0;
  std::vector<int> ids;          // prompt and completion, with the end token
  int64_t completion_start = 0;  // ids[completion_start ..] are trained
};

// Prompt-completion rows. Prompt and prompt + completion are rendered and encoded as a whole and split at their common
// token prefix; plain text gets the tokenizer's end token appended (a chat's template writes its own).
// Rows with more than `context` tokens are INVALID_ARGUMENT; max_prompt_length filters as above.
absl::StatusOr<std::vector<SftRow>> MakeSftRows(const Dataset& dataset, const DatasetSpec& spec,
                                                const text::Tokenizer& tokenizer, int64_t context);

}  // namespace tandem::jobs
