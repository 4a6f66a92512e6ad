#pragma once
// What TRL logs of a GRPO step, under its names. Pure; any thread.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "services/trainer/grpo/advantages.h"
#include "services/trainer/grpo/loss.h"

namespace tandem::trainer {

using Metrics = std::map<std::string, double>;

// Of a generation batch when it is sampled. lengths[i] in tokens; truncated[i]: its last token is neither end nor pad;
// rewards[i][f] as in ComputeAdvantages, names[f] of the functions. A mean without values is left out.
//   completions/{mean,min,max}_length, completions/clipped_ratio, completions/{mean,min,max}_terminated_length,
//   rewards/NAME/{mean,std}, reward, reward_std, frac_reward_zero_std
Metrics RolloutMetrics(absl::Span<const int64_t> lengths, const std::vector<bool>& truncated,
                       const std::vector<std::vector<double>>& rewards, absl::Span<const std::string> names,
                       const Advantages& advantages);

// One row of an optimizer step after its forward. Spans have a value for each token in the loss.
struct ScoredRow {
  absl::Span<const float> logps;
  absl::Span<const float> old_logps;  // those of `logps` themselves on policy
  absl::Span<const float> sampling_logps;
  absl::Span<const float> entropies;
  double advantage = 0;
  double token_weight = 0;
  bool masked = false;  // its tokens are not in the loss
};

// Of an optimizer step, whose micro-batches are `options.micro_batch_rows` rows each; values are means over the
// micro-batches of what TRL computes for each.
//   loss (the sum of the micro-batches' losses), entropy, clip_ratio/{low_mean,high_mean,region_mean,low_min,high_max},
//   sampling/sampling_logp_difference/{mean,max} between the sampler's log-probabilities and the trainer's of the same
//   weights (old_logps), over all the step's tokens.
Metrics LossMetrics(const LossOptions& options, absl::Span<const ScoredRow> rows);

// Losses of the micro-batches, as they enter backward.
std::vector<double> MicroBatchLosses(const LossOptions& options, absl::Span<const ScoredRow> rows);

}  // namespace tandem::trainer
