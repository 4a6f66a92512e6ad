#pragma once
// A model in plain memory with both of its forwards, for tests: what the trainer and inference do, without processes.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "services/checkpoint/checkpoint.h"
#include "services/transformer/transformer.h"

namespace tandem::testing {

// Sequences one behind the other, every row but the last of each scored with the next token.
struct Pack {
  std::vector<int> tokens, cu_seqlens = {0}, rows, targets;

  // Scores the tokens from `prompt` on.
  void Add(const std::vector<int>& sequence, int prompt = 1);
};

struct Scores {
  std::vector<float> logprob, entropy;
};

class ModelRun {
 public:
  // Weights of `dir`; ends the test process when they cannot be loaded.
  ModelRun(const std::string& dir, std::unique_ptr<Kernels> kernels);
  // Random weights: matrices normal with 1 / sqrt(K), norms near 1.
  ModelRun(const ModelConfig& config, uint64_t seed, std::unique_ptr<Kernels> kernels);

  Scores Score(const Pack& pack, float temperature);
  // Forward and backward; gradients of sum weight[i] * logprob[i], in the layout of the weights.
  std::vector<float> Gradients(const Pack& pack, const std::vector<float>& weight, float temperature);
  // Logits of every position through the paged forward, in chunks of at most `chunk` rows.
  std::vector<float> PagedLogits(const std::vector<int>& tokens, int chunk);
  std::vector<int> Greedy(const std::vector<int>& prompt, int count);

  const Transformer& transformer() const { return *transformer_; }
  Kernels& kernels() { return *kernels_; }
  std::vector<float>& weights() { return weights_; }

 private:
  std::byte* TrainWorkspace(const Pack& pack);

  std::unique_ptr<Kernels> kernels_;
  std::unique_ptr<Transformer> transformer_;
  std::vector<float> weights_;
  std::vector<std::byte> workspace_;
};

// The tensors of the checkpoint that a buffer in weight layout holds, by name: [n, K] in the checkpoint's order.
std::vector<float> CheckpointTensor(const WeightManifest& manifest, const std::vector<float>& values,
                                    const TensorPart& part);

}  // namespace tandem::testing
