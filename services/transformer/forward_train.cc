// The forward of training: a pack of whole sequences, activations kept for the backward.

#include <algorithm>

#include "common/base/status.h"
#include "services/transformer/train_buffers.h"
#include "services/transformer/transformer.h"

namespace tandem {
namespace {

void FillPositions(absl::Span<const int> cu_seqlens, int* positions) {
  for (size_t s = 0; s + 1 < cu_seqlens.size(); ++s) {
    for (int row = cu_seqlens[s]; row < cu_seqlens[s + 1]; ++row) positions[row] = row - cu_seqlens[s];
  }
}

}  // namespace

uint64_t Transformer::TrainWorkspaceBytes(int max_tokens, int max_scored) const {
  return TrainBuffers(config_, max_tokens, max_scored, nullptr).bytes;
}

void Transformer::ForwardTrain(const float* weights, const PackedBatch& batch, const ScoredRows& scored,
                               float temperature, std::byte* workspace, float* logprob, float* entropy) const {
  const int rows = static_cast<int>(batch.tokens.size());
  TANDEM_CHECK(!batch.cu_seqlens.empty() && batch.cu_seqlens.front() == 0 && batch.cu_seqlens.back() == rows, rows);
  TANDEM_CHECK(scored.rows.size() == scored.targets.size(), scored.rows.size());
  if (rows == 0) return;
  const TrainBuffers b(config_, rows, static_cast<int>(scored.rows.size()), workspace);
  FillPositions(batch.cu_seqlens, b.positions);
  kernels_.RopeAngles(b.positions, rows, config_.head_dim, config_.rope_theta, b.angles);
  kernels_.Embedding(weights + embed_, batch.tokens.data(), rows, config_.hidden_size, config_.vocab_size,
                     b.layers.front().input);
  for (int i = 0; i < config_.num_hidden_layers; ++i) {
    const LayerActivations& layer = b.layers[i];
    float* output = i + 1 < config_.num_hidden_layers ? b.layers[i + 1].input : b.output;
    LayerHead(weights, i, rows, layer.input, b.angles, b.norm, layer.qkv);
    kernels_.AttentionPacked(attention_shape(), layer.qkv, batch.cu_seqlens.data(),
                             static_cast<int>(batch.cu_seqlens.size()) - 1, layer.attention, layer.lse);
    LayerTail(weights, i, rows,
              {.input = layer.input,
               .attention = layer.attention,
               .middle = layer.middle,
               .norm = b.norm,
               .gate_up = layer.gate_up,
               .activation = b.activation,
               .output = output});
  }
  ScoreForward(weights, scored, temperature, b, logprob, entropy);
}

void Transformer::ScoreForward(const float* weights, const ScoredRows& scored, float temperature, const TrainBuffers& b,
                               float* logprob, float* entropy) const {
  const int hidden = config_.hidden_size;
  const int count = static_cast<int>(scored.rows.size());
  kernels_.GatherRows(b.output, scored.rows.data(), count, hidden, b.scored_input);
  kernels_.RmsNorm(b.scored_input, weights + norm_, count, hidden, config_.rms_norm_eps, b.scored);
  for (int first = 0; first < count; first += b.logit_rows) {
    const int rows = std::min(b.logit_rows, count - first);
    Logits(weights, b.scored + int64_t{first} * hidden, rows, b.logits);
    kernels_.LogProb(b.logits, rows, config_.vocab_size, temperature, scored.targets.data() + first, logprob + first,
                     entropy ? entropy + first : nullptr, b.lse + first);
  }
}

}  // namespace tandem
