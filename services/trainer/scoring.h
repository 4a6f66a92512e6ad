#pragma once
// Completions to rewards: decodes them, asks every reward function, keeps what each said. Called without the turn.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "services/trainer/job_inputs.h"

namespace tandem::trainer {

struct Scored {
  std::vector<std::string> texts;            // decoded with special tokens skipped
  std::vector<std::vector<double>> rewards;  // [completion][function], unweighted; NaN: none
};

// Completion i answers the prompt prompts[i] of `dataset`. INTERNAL if a function gives a wrong count.
absl::StatusOr<Scored> ScoreCompletions(const JobInputs& inputs, const jobs::Dataset& dataset,
                                        absl::Span<const jobs::Prompt* const> prompts,
                                        absl::Span<const std::vector<int>> completions);

}  // namespace tandem::trainer
