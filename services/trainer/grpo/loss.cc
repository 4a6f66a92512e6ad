#include "services/trainer/grpo/loss.h"

#include <algorithm>
#include <cmath>

namespace tandem::trainer {

double TokenWeight(const LossOptions& options, int64_t length, int64_t num_items_in_batch) {
  if (length == 0) return 0;
  const double accumulation = options.gradient_accumulation_steps;
  switch (options.type) {
    case jobs::LossType::kGrpo:
      return 1 / (options.micro_batch_rows * accumulation * static_cast<double>(length));
    case jobs::LossType::kDapo:
      break;
  }
  const auto items = static_cast<double>(std::max<int64_t>(num_items_in_batch, 1));
  return 1 / (items * accumulation / options.steps_per_generation);
}

TokenTerm ComputeTokenTerm(const LossOptions& options, double logp, double old_logp, double advantage) {
  const double ratio = std::exp(logp - old_logp);
  const double plain = ratio * advantage;
  const double clamped = std::clamp(ratio, 1 - options.epsilon, 1 + options.epsilon_high) * advantage;
  TokenTerm term;
  term.clipped_low = ratio < 1 - options.epsilon && advantage < 0;
  term.clipped_high = ratio > 1 + options.epsilon_high && advantage > 0;
  term.loss = -std::min(plain, clamped);
  // Where the minimum is the clamped side alone its gradient is 0; inside the bounds both sides are the same.
  term.gradient = clamped < plain ? 0 : -plain;
  return term;
}

}  // namespace tandem::trainer
