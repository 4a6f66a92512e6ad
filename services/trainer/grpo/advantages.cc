#include "services/trainer/grpo/advantages.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/status.h"

namespace tandem::trainer {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kStdOffset = 1e-4;  // added to the deviation, not to the variance
constexpr double kZeroStd = 1e-8;    // below it TRL's torch.isclose says that a deviation is 0

double WeightedSum(absl::Span<const double> rewards, absl::Span<const double> weights) {
  TANDEM_CHECK(rewards.size() == weights.size(), rewards.size(), " rewards, ", weights.size(), " weights");
  double sum = 0;
  bool any = false;
  for (size_t f = 0; f < rewards.size(); ++f) {
    if (std::isnan(rewards[f])) continue;
    sum += weights[f] * rewards[f];
    any = true;
  }
  return any ? sum : kNone;
}

}  // namespace

MeanAndStd MeanAndStdOf(absl::Span<const double> values) {
  double sum = 0;
  int64_t count = 0;
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const double v : values) {
    if (std::isnan(v)) continue;
    sum += v;
    ++count;
    low = std::min(low, v);
    high = std::max(high, v);
  }
  if (count == 0) return {kNone, kNone};
  if (low == high) return {low, 0};  // exactly: a sum of equal values, divided again, may be off by a rounding
  const double mean = sum / static_cast<double>(count);
  double squares = 0;
  for (const double v : values) {
    if (!std::isnan(v)) squares += (v - mean) * (v - mean);
  }
  return {mean, std::sqrt(squares / static_cast<double>(count - 1))};
}

Advantages ComputeAdvantages(const std::vector<std::vector<double>>& rewards, absl::Span<const double> weights,
                             int num_generations, jobs::ScaleRewards scale) {
  TANDEM_CHECK(num_generations > 0 && rewards.size() % static_cast<size_t>(num_generations) == 0, rewards.size(),
               " rows, groups of ", num_generations);
  Advantages out;
  for (const std::vector<double>& row : rewards) out.rewards.push_back(WeightedSum(row, weights));
  const MeanAndStd all = MeanAndStdOf(out.rewards);
  out.reward_mean = all.mean;
  out.reward_std = all.std;
  const auto group_size = static_cast<size_t>(num_generations);
  int64_t rows_without_signal = 0;
  for (size_t begin = 0; begin < rewards.size(); begin += group_size) {
    const absl::Span<const double> group = absl::MakeConstSpan(out.rewards).subspan(begin, group_size);
    const MeanAndStd own = MeanAndStdOf(group);
    const double std = scale == jobs::ScaleRewards::kBatch ? all.std : own.std;
    if (std <= kZeroStd) rows_without_signal += num_generations;
    for (const double reward : group) {
      const double centred = reward - own.mean;
      const double scaled = scale == jobs::ScaleRewards::kNone ? centred : centred / (std + kStdOffset);
      out.advantages.push_back(std::isnan(scaled) ? 0 : scaled);
    }
  }
  if (!rewards.empty()) out.frac_reward_zero_std = static_cast<double>(rows_without_signal) / rewards.size();
  return out;
}

}  // namespace tandem::trainer
