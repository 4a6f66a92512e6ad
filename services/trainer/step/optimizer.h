#pragma once
// AdamW over weights, gradients and moments that lie in one layout. Owns nothing; the caller holds the turn and has the
// write window open for Step. One thread.

#include <functional>

#include "kernels/kernels.h"
#include "services/checkpoint/weight_manifest.h"

namespace tandem::trainer {

struct OptimizerOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0;   // on entries whose manifest says `decay`: matrices, not norms
  double max_grad_norm = 1;  // 0: no clipping
};

class Optimizer {
 public:
  // `progress` is called after each weight.
  Optimizer(Kernels& kernels, const WeightManifest& manifest, const OptimizerOptions& options,
            std::function<void()> progress);

  // L2 norm over all elements.
  double GradientNorm(const float* gradients) const;
  // Clips as torch.nn.utils.clip_grad_norm_ does (factor min(1, max / (norm + 1e-6))) and applies update number `step`,
  // from 1.
  void Step(double learning_rate, int64_t step, double gradient_norm, const float* gradients, float* weights, float* m,
            float* v) const;

 private:
  Kernels& kernels_;
  const WeightManifest& manifest_;
  const OptimizerOptions options_;
  const std::function<void()> progress_;
};

}  // namespace tandem::trainer
