#include "services/transformer/transformer.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace tandem {

Transformer::Transformer(const ModelConfig& config, const WeightManifest& manifest, Kernels& kernels)
    : config_(config), manifest_(manifest), kernels_(kernels) {
  const int heads = config.num_attention_heads;
  TANDEM_CHECK(config.head_dim > 0 && config.head_dim % 2 == 0 && config.head_dim <= kMaxHeadDim, config.head_dim);
  TANDEM_CHECK(config.num_key_value_heads > 0 && heads % config.num_key_value_heads == 0, heads, " heads, ",
               config.num_key_value_heads, " key heads");
  TANDEM_CHECK(heads / config.num_key_value_heads <= kMaxQueryGroup, heads);
  const auto offset = [this](const std::string& name) { return manifest_.at(name).offset; };
  for (int i = 0; i < config.num_hidden_layers; ++i) {
    const std::string name = absl::StrCat("layers.", i, ".");
    layers_.push_back({.norm1 = offset(name + "norm1"),
                       .qkv = offset(name + "qkv"),
                       .o = offset(name + "o"),
                       .norm2 = offset(name + "norm2"),
                       .gate_up = offset(name + "gate_up"),
                       .down = offset(name + "down")});
  }
  norm_ = offset("norm");
  head_ = offset("head");
  embed_ = config.tie_word_embeddings ? head_ : offset("embed");
}

AttentionShape Transformer::attention_shape() const {
  return {config_.num_attention_heads, config_.num_key_value_heads, config_.head_dim};
}

LinearShape Transformer::Shape(int rows, int k, int n) const {
  return {rows, k, n, n};
}

void Transformer::LayerHead(const float* weights, int layer, int rows, const float* input, const float* angles,
                            float* norm, float* qkv) const {
  const LayerOffsets& w = layers_[layer];
  kernels_.RmsNorm(input, weights + w.norm1, rows, config_.hidden_size, config_.rms_norm_eps, norm);
  kernels_.Linear(Shape(rows, config_.hidden_size, config_.qkv_size()), norm, weights + w.qkv, nullptr, qkv);
  kernels_.Rope(attention_shape(), angles, rows, qkv);
}

void Transformer::LayerTail(const float* weights, int layer, int rows, const LayerRows& r) const {
  const LayerOffsets& w = layers_[layer];
  const int hidden = config_.hidden_size;
  const int intermediate = config_.intermediate_size;
  kernels_.Linear(Shape(rows, config_.q_size(), hidden), r.attention, weights + w.o, r.input, r.middle);
  kernels_.RmsNorm(r.middle, weights + w.norm2, rows, hidden, config_.rms_norm_eps, r.norm);
  kernels_.Linear(Shape(rows, hidden, 2 * intermediate), r.norm, weights + w.gate_up, nullptr, r.gate_up);
  kernels_.SwiGlu(r.gate_up, rows, intermediate, r.activation);
  kernels_.Linear(Shape(rows, intermediate, hidden), r.activation, weights + w.down, r.middle, r.output);
}

void Transformer::Logits(const float* weights, const float* hidden, int rows, float* logits) const {
  kernels_.Linear(Shape(rows, config_.hidden_size, config_.vocab_size), hidden, weights + head_, nullptr, logits);
}

}  // namespace tandem
