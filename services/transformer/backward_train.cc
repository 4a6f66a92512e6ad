// The backward of training: from the scored rows down to the embedding. Gradients are added to.

#include <algorithm>

#include "services/transformer/train_buffers.h"
#include "services/transformer/transformer.h"

namespace tandem {

void Transformer::BackwardTrain(const float* weights, const PackedBatch& batch, const ScoredRows& scored,
                                float temperature, const float* weight, std::byte* workspace, float* gradients) const {
  const int rows = static_cast<int>(batch.tokens.size());
  if (rows == 0 || scored.rows.empty()) return;
  const TrainBuffers b(config_, rows, static_cast<int>(scored.rows.size()), workspace);
  ScoreBackward(weights, scored, rows, temperature, weight, b, gradients);
  for (int layer = config_.num_hidden_layers - 1; layer >= 0; --layer) {
    MlpBackward(weights, layer, rows, b, gradients);
    AttentionBackward(weights, layer, batch, b, gradients);
  }
  // As torch.nn.Embedding(padding_idx): the lookup of that token has no gradient.
  if (config_.padding_idx.has_value()) {
    for (int row = 0; row < rows; ++row) {
      if (batch.tokens[row] != *config_.padding_idx) continue;
      kernels_.Zero(b.dhidden + int64_t{row} * config_.hidden_size, config_.hidden_size);
    }
  }
  kernels_.EmbeddingBackward(b.dhidden, batch.tokens.data(), rows, config_.hidden_size, config_.vocab_size,
                             gradients + embed_);
}

void Transformer::ScoreBackward(const float* weights, const ScoredRows& scored, int rows, float temperature,
                                const float* weight, const TrainBuffers& b, float* gradients) const {
  const int hidden = config_.hidden_size;
  const int vocab = config_.vocab_size;
  const int count = static_cast<int>(scored.rows.size());
  // Slices of the vocabulary: each touches its columns of the head and of their gradient once.
  for (int first = 0; first < vocab; first += b.logit_columns) {
    const LinearShape shape{count, hidden, std::min(b.logit_columns, vocab - first), vocab};
    kernels_.Linear(shape, b.scored, weights + head_ + first, nullptr, b.logits);
    kernels_.LogProbBackward(count, first, shape.n, temperature, scored.targets.data(), b.lse, weight, b.logits);
    kernels_.LinearBackwardWeight(shape, b.scored, b.logits, gradients + head_ + first);
    kernels_.LinearBackwardInput(shape, b.logits, weights + head_ + first, first > 0, b.dscored);
  }
  kernels_.Zero(b.dscored_input, int64_t{count} * hidden);
  kernels_.RmsNormBackward(b.scored_input, weights + norm_, b.dscored, count, hidden, config_.rms_norm_eps,
                           b.dscored_input, gradients + norm_);
  kernels_.Zero(b.dhidden, int64_t{rows} * hidden);
  kernels_.ScatterRows(b.dscored_input, scored.rows.data(), count, hidden, b.dhidden);
}

void Transformer::MlpBackward(const float* weights, int layer, int rows, const TrainBuffers& b,
                              float* gradients) const {
  const LayerOffsets& w = layers_[layer];
  const LayerActivations& kept = b.layers[layer];
  const int hidden = config_.hidden_size;
  const int intermediate = config_.intermediate_size;
  const LinearShape down = Shape(rows, intermediate, hidden);
  const LinearShape gate_up = Shape(rows, hidden, 2 * intermediate);
  kernels_.SwiGlu(kept.gate_up, rows, intermediate, b.activation);
  kernels_.LinearBackwardWeight(down, b.activation, b.dhidden, gradients + w.down);
  kernels_.LinearBackwardInput(down, b.dhidden, weights + w.down, false, b.dactivation);
  kernels_.SwiGluBackward(kept.gate_up, b.dactivation, rows, intermediate, b.dgate_up);
  kernels_.RmsNorm(kept.middle, weights + w.norm2, rows, hidden, config_.rms_norm_eps, b.norm);
  kernels_.LinearBackwardWeight(gate_up, b.norm, b.dgate_up, gradients + w.gate_up);
  kernels_.LinearBackwardInput(gate_up, b.dgate_up, weights + w.gate_up, false, b.dnorm);
  kernels_.RmsNormBackward(kept.middle, weights + w.norm2, b.dnorm, rows, hidden, config_.rms_norm_eps, b.dhidden,
                           gradients + w.norm2);
}

void Transformer::AttentionBackward(const float* weights, int layer, const PackedBatch& batch, const TrainBuffers& b,
                                    float* gradients) const {
  const LayerOffsets& w = layers_[layer];
  const LayerActivations& kept = b.layers[layer];
  const AttentionShape shape = attention_shape();
  const int rows = static_cast<int>(batch.tokens.size());
  const int hidden = config_.hidden_size;
  const LinearShape o = Shape(rows, config_.q_size(), hidden);
  const LinearShape qkv = Shape(rows, hidden, config_.qkv_size());
  kernels_.LinearBackwardWeight(o, kept.attention, b.dhidden, gradients + w.o);
  kernels_.LinearBackwardInput(o, b.dhidden, weights + w.o, false, b.dattention);
  kernels_.AttentionBackward(shape, kept.qkv, kept.attention, kept.lse, b.dattention, batch.cu_seqlens.data(),
                             static_cast<int>(batch.cu_seqlens.size()) - 1, b.dqkv);
  kernels_.RopeBackward(shape, b.angles, rows, b.dqkv);
  kernels_.RmsNorm(kept.input, weights + w.norm1, rows, hidden, config_.rms_norm_eps, b.norm);
  kernels_.LinearBackwardWeight(qkv, b.norm, b.dqkv, gradients + w.qkv);
  kernels_.LinearBackwardInput(qkv, b.dqkv, weights + w.qkv, false, b.dnorm);
  kernels_.RmsNormBackward(kept.input, weights + w.norm1, b.dnorm, rows, hidden, config_.rms_norm_eps, b.dhidden,
                           gradients + w.norm1);
}

}  // namespace tandem
