#pragma once
// The job's rewards on held-out prompts, one completion each, sampled from the current version. Called without the
// turn.

#include <functional>

#include "absl/status/statusor.h"
#include "services/trainer/grpo/metrics.h"
#include "services/trainer/job_inputs.h"
#include "services/trainer/rollouts.h"

namespace tandem::trainer {

struct Evaluation {
  int64_t rows = 0;
  double mean_reward = 0;  // of the weighted sums, over the rows that have one; accuracy for numeric_match
  Metrics metrics;         // eval_reward, eval_rewards/NAME/mean, eval_completions/mean_length
};

// `progress` hears of the share that is done. The random numbers are the same at every evaluation of a job.
absl::StatusOr<Evaluation> Evaluate(const JobInputs& inputs, Rollouts& rollouts, uint64_t set_id, uint64_t version,
                                    const std::function<absl::Status()>& check,
                                    const std::function<void(double fraction)>& progress);

}  // namespace tandem::trainer
