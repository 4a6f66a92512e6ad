#include "services/transformer/train_buffers.h"

#include <algorithm>

#include "services/transformer/workspace.h"

namespace tandem {
namespace {

// Logits that exist at a time (32 MB), unless one row or 96 columns are more.
constexpr int64_t kLogits = int64_t{8} << 20;
constexpr int64_t kColumnStep = 96;

int64_t ClampTo(int64_t wanted, int64_t least, int64_t most) {
  return std::min(std::max(wanted, least), most);
}

}  // namespace

TrainBuffers::TrainBuffers(const ModelConfig& config, int max_tokens, int max_scored, std::byte* base) {
  Workspace workspace(base);
  const int64_t t = max_tokens;
  const int64_t s = std::max(max_scored, 1);
  const int64_t hidden = config.hidden_size;
  const int64_t intermediate = config.intermediate_size;
  const int64_t vocab = config.vocab_size;
  for (int i = 0; i < config.num_hidden_layers; ++i) {
    LayerActivations layer{};
    layer.input = workspace.Floats(t * hidden);
    layer.qkv = workspace.Floats(t * config.qkv_size());
    layer.attention = workspace.Floats(t * config.q_size());
    layer.lse = workspace.Floats(t * config.num_attention_heads);
    layer.middle = workspace.Floats(t * hidden);
    layer.gate_up = workspace.Floats(t * 2 * intermediate);
    layers.push_back(layer);
  }
  output = workspace.Floats(t * hidden);
  positions = workspace.Ints(t);
  angles = workspace.Floats(t * config.head_dim);
  scored = workspace.Floats(s * hidden);
  lse = workspace.Floats(s);
  logit_rows = static_cast<int>(ClampTo(kLogits / vocab, 1, s));
  logit_columns = static_cast<int>(ClampTo(kLogits / s / kColumnStep * kColumnStep, kColumnStep, vocab));
  logits = workspace.Floats(std::max(logit_rows * vocab, s * logit_columns));
  norm = workspace.Floats(t * hidden);
  activation = workspace.Floats(t * intermediate);
  dhidden = workspace.Floats(t * hidden);
  dnorm = workspace.Floats(t * hidden);
  dactivation = workspace.Floats(t * intermediate);
  dgate_up = workspace.Floats(t * 2 * intermediate);
  dattention = workspace.Floats(t * config.q_size());
  dqkv = workspace.Floats(t * config.qkv_size());
  scored_input = workspace.Floats(s * hidden);
  dscored = workspace.Floats(s * hidden);
  dscored_input = workspace.Floats(s * hidden);
  bytes = workspace.bytes();
}

}  // namespace tandem
