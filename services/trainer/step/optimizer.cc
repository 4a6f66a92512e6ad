#include "services/trainer/step/optimizer.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tandem::trainer {

Optimizer::Optimizer(Kernels& kernels, const WeightManifest& manifest, const OptimizerOptions& options,
                     std::function<void()> progress)
    : kernels_(kernels), manifest_(manifest), options_(options), progress_(std::move(progress)) {}

double Optimizer::GradientNorm(const float* gradients) const {
  double squares = 0;
  for (const WeightEntry& entry : manifest_.entries) {
    squares += kernels_.SumOfSquares(gradients + entry.offset, entry.elements);
    progress_();
  }
  return std::sqrt(squares);
}

void Optimizer::Step(double learning_rate, int64_t step, double gradient_norm, const float* gradients, float* weights,
                     float* m, float* v) const {
  AdamWOptions adamw{.learning_rate = learning_rate,
                     .beta1 = options_.beta1,
                     .beta2 = options_.beta2,
                     .epsilon = options_.epsilon,
                     .step = step};
  if (options_.max_grad_norm > 0) adamw.clip_scale = std::min(1.0, options_.max_grad_norm / (gradient_norm + 1e-6));
  for (const WeightEntry& entry : manifest_.entries) {
    adamw.weight_decay = entry.decay ? options_.weight_decay : 0;
    kernels_.AdamW(adamw, entry.elements, gradients + entry.offset, weights + entry.offset, m + entry.offset,
                   v + entry.offset);
    progress_();
  }
}

}  // namespace tandem::trainer
