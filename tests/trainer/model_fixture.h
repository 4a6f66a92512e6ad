#pragma once
// A checkpoint in plain memory with our own forward and backward around it: training without a pool.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "services/checkpoint/safetensors.h"
#include "services/checkpoint/weight_manifest.h"
#include "services/trainer/step/pack_pass.h"

namespace tandem::trainer {

class ModelFixture {
 public:
  // Ends the process if `dir` can not be loaded. Packs hold at most `max_tokens` tokens.
  explicit ModelFixture(const std::string& dir, int max_tokens = 1024);

  // Runs all rows in packs of `pack_tokens`; null: forward only. Gradients are added to `gradients`.
  std::vector<RowScores> Run(absl::Span<const Sequence> rows, int64_t pack_tokens, float temperature,
                             const TokenGradient* token_gradient);
  void ZeroGradients();
  // Elements of a tensor of the checkpoint, in its shape [n, K], from an array in the layout.
  std::vector<float> TensorOf(const TensorPart& part, const std::vector<float>& layout) const;

  ModelConfig config;
  WeightManifest manifest;
  std::unique_ptr<Kernels> kernels;
  std::unique_ptr<Transformer> transformer;
  std::vector<float> weights, gradients, m, v;

 private:
  std::vector<std::byte> workspace_;
};

// Norm of a - b over norm of b.
double RelativeDifference(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace tandem::trainer
