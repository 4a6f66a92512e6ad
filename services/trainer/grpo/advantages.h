#pragma once
// Group-relative advantages of a generation batch, as TRL computes them (sum_then_normalize). Pure; any thread.

#include <vector>

#include "absl/types/span.h"
#include "services/jobs/job_spec.h"

namespace tandem::trainer {

struct Advantages {
  std::vector<double> rewards;      // [rows] weighted sum of the functions; NaN where every function gave none
  std::vector<double> advantages;   // [rows] 0 where there is no reward
  double reward_mean = 0;           // over the rows that have one
  double reward_std = 0;            // unbiased; 0 for fewer than two
  double frac_reward_zero_std = 0;  // share of rows whose deviation (the one `scale` names) is 0: no signal
};

// rewards[i][f]: what function f gave to row i, NaN for none; a missing one is skipped in the row's weighted sum, and a
// row with none at all is left out of mean and deviation. Rows of a group of `num_generations` stand next to each
// other.
//   advantage = (reward - mean of the group) / (deviation + 1e-4), deviations unbiased (n - 1).
// A group of equal rewards has advantages of exactly 0.
Advantages ComputeAdvantages(const std::vector<std::vector<double>>& rewards, absl::Span<const double> weights,
                             int num_generations, jobs::ScaleRewards scale);

// Mean and unbiased deviation of the values that are not NaN; {NaN, NaN} without any, deviation 0 for one.
struct MeanAndStd {
  double mean = 0;
  double std = 0;
};
MeanAndStd MeanAndStdOf(absl::Span<const double> values);

}  // namespace tandem::trainer
