#pragma once
// The GRPO loss as a sum of token terms, and d loss / d log-probability. Pure; any thread. Formulas: TRL 1.16, beta 0.
//
// The loss of an optimizer step is sum over rows i, tokens t of weight_i * l_it, with
//   l = -min(rho A, clamp(rho, 1 - epsilon, 1 + epsilon_high) A),  rho = exp(logp - old).
//   grpo: weight_i = 1 / (rows of a micro-batch * tokens of the row * gradient_accumulation_steps)
//   dapo: weight_i = steps_per_generation / (tokens of the generation batch * gradient_accumulation_steps)
// weight_i is known from the masks before the first forward, so how rows are packed changes nothing beyond rounding. On
// policy `old` is the log-probability itself, detached: rho is 1 and the gradient is that of logp.

#include <cstdint>
#include <vector>

#include "services/jobs/job_spec.h"

namespace tandem::trainer {

struct LossOptions {
  jobs::LossType type = jobs::LossType::kDapo;
  double epsilon = 0.2;
  double epsilon_high = 0.2;
  int micro_batch_rows = 1;  // per_device_train_batch_size
  int gradient_accumulation_steps = 1;
  int steps_per_generation = 1;
};

// The weight of each token of a row. `length`: the row's tokens in the loss (0: masked, truncated rows included);
// `num_items_in_batch`: tokens in the loss over its whole generation batch.
double TokenWeight(const LossOptions& options, int64_t length, int64_t num_items_in_batch);

struct TokenTerm {
  double loss = 0;            // l
  double gradient = 0;        // d l / d logp
  bool clipped_low = false;   // rho < 1 - epsilon and A < 0
  bool clipped_high = false;  // rho > 1 + epsilon_high and A > 0
};
TokenTerm ComputeTokenTerm(const LossOptions& options, double logp, double old_logp, double advantage);

}  // namespace tandem::trainer
