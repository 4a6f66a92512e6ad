#pragma once
// One pack through the model: forward, and backward where the rows have a gradient. Owns nothing; one thread.

#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "services/trainer/step/packs.h"
#include "services/transformer/transformer.h"

namespace tandem::trainer {

// What the forward says of a row's scored tokens.
struct RowScores {
  std::vector<float> logps;      // log softmax(logits / temperature) of the token
  std::vector<float> entropies;  // of that distribution, in nats
};

// Fills d loss / d logp of the scored tokens of row `row` of the batch from their scores.
using TokenGradient = std::function<void(size_t row, const RowScores& scores, absl::Span<float> gradient)>;

struct PackBuffers {
  const float* weights = nullptr;
  std::byte* workspace = nullptr;  // Transformer::TrainWorkspaceBytes of the largest pack
  float* gradients = nullptr;      // in the layout of the weights; += by a backward
};

// Runs `pack` of the batch `rows` and puts each member's scores into `scores` (one entry for each row of the batch).
// `token_gradient` null: forward only.
void RunPack(const Transformer& transformer, const PackBuffers& buffers, absl::Span<const Sequence> rows,
             const Pack& pack, float temperature, const TokenGradient* token_gradient, std::vector<RowScores>& scores);

}  // namespace tandem::trainer
