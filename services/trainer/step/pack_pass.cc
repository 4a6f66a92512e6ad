#include "services/trainer/step/pack_pass.h"

namespace tandem::trainer {

void RunPack(const Transformer& transformer, const PackBuffers& buffers, absl::Span<const Sequence> rows,
             const Pack& pack, float temperature, const TokenGradient* token_gradient, std::vector<RowScores>& scores) {
  const PackedBatch batch{pack.tokens, pack.cu_seqlens};
  const ScoredRows scored{pack.scored_rows, pack.targets};
  std::vector<float> logps(pack.targets.size()), entropies(pack.targets.size()), gradient(pack.targets.size());
  transformer.ForwardTrain(buffers.weights, batch, scored, temperature, buffers.workspace, logps.data(),
                           entropies.data());
  size_t first = 0;
  for (const size_t member : pack.members) {
    const size_t count = rows[member].scored.size();
    const auto begin = static_cast<ptrdiff_t>(first), end = static_cast<ptrdiff_t>(first + count);
    scores[member] = {{logps.begin() + begin, logps.begin() + end},
                      {entropies.begin() + begin, entropies.begin() + end}};
    if (token_gradient != nullptr) {
      (*token_gradient)(member, scores[member], absl::MakeSpan(gradient).subspan(first, count));
    }
    first += count;
  }
  if (token_gradient == nullptr) return;
  transformer.BackwardTrain(buffers.weights, batch, scored, temperature, gradient.data(), buffers.workspace,
                            buffers.gradients);
}

}  // namespace tandem::trainer
