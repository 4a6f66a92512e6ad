#pragma once
// The learning rate of an optimizer step, as transformers' schedules have it. Pure.

#include <algorithm>
#include <cstdint>

namespace tandem::trainer {

// get_linear_schedule_with_warmup: from 0 to `peak` over `warmup_steps`, then down to 0 at `total_steps`. `step` counts
// from 0: the first step of a schedule without warm-up has the whole rate.
inline double LinearLearningRate(double peak, int64_t step, int64_t warmup_steps, int64_t total_steps) {
  if (step < warmup_steps) return peak * static_cast<double>(step) / static_cast<double>(warmup_steps);
  const auto left = static_cast<double>(std::max<int64_t>(0, total_steps - step));
  return peak * left / static_cast<double>(std::max<int64_t>(1, total_steps - warmup_steps));
}

// The same of transformers' get_constant_schedule_with_warmup; get_constant_schedule is warmup_steps 0.
inline double ConstantLearningRate(double peak, int64_t step, int64_t warmup_steps) {
  return step < warmup_steps ? peak * static_cast<double>(step) / static_cast<double>(warmup_steps) : peak;
}

}  // namespace tandem::trainer
