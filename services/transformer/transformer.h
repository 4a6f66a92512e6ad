#pragma once
// The decoder over packed sequences: forward with paged keys and values for inference, forward and backward for
// training. Both forwards give the same bits for the same token at the same position with the same tokens before it
// ("row invariance").
//
// Memory: nothing that grows with tokens or weights is allocated here. Callers bring workspaces in segments, 64-byte
// aligned; *Bytes say how large.
// Threads: a Transformer is immutable and may be shared; a workspace serves one call at a time.

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/kernels.h"
#include "services/checkpoint/model_config.h"
#include "services/checkpoint/weight_manifest.h"

namespace tandem {

struct TrainBuffers;

// Limits of the kernels' scratch; a larger model is refused when a Transformer is made.
inline constexpr int kMaxHeadDim = 1024;
inline constexpr int kMaxQueryGroup = 128;  // query heads for each key head

// Rows of one inference step. Row i is token tokens[i] at position positions[i] of sequence sequence[i]. Rows of a
// sequence stand in ascending positions, and the keys and values of all its earlier positions are in its blocks already
// or in earlier rows of this batch. block_tables[s] lists the KV block ids of sequence s, enough for its highest
// position here.
struct PagedBatch {
  absl::Span<const int> tokens, positions, sequence;
  absl::Span<const absl::Span<const int>> block_tables;
  // Indices of the rows whose hidden state is wanted (for logits).
  absl::Span<const int> output_rows;
};

// Sequences one after another: sequence s is tokens[cu_seqlens[s] .. cu_seqlens[s + 1]).
struct PackedBatch {
  absl::Span<const int> tokens;
  absl::Span<const int> cu_seqlens;
};

// A scored position: row r's hidden state predicts `target`. d loss / d logprob is `weight` in Backward.
struct ScoredRows {
  absl::Span<const int> rows;     // rows of the pack, ascending
  absl::Span<const int> targets;  // token ids
};

class Transformer {
 public:
  Transformer(const ModelConfig& config, const WeightManifest& manifest, Kernels& kernels);

  // ---- inference
  // Bytes of the KV cache of `blocks` blocks (of kKvBlock positions, all layers). A block is one contiguous range of
  // KvBytes(1), so that copying block a to block b is one copy; what lies in it is the twin's choice.
  uint64_t KvBytes(int64_t blocks) const;
  uint64_t PagedWorkspaceBytes(int max_rows) const;
  // hidden[i, :] = final-norm output of row output_rows[i]; keys and values of all rows are written to `kv`.
  void ForwardPaged(const float* weights, const PagedBatch& batch, float* kv, std::byte* workspace,
                    float* hidden) const;
  // logits[i, v] of `rows` hidden rows, not divided by a temperature.
  void Logits(const float* weights, const float* hidden, int rows, float* logits) const;

  // ---- training
  // Bytes of activations and workspace for packs of at most max_tokens tokens and max_scored scored rows.
  uint64_t TrainWorkspaceBytes(int max_tokens, int max_scored) const;
  // Runs the pack and keeps activations in `workspace`. For each scored row: logprob = log softmax(logits /
  // temperature)[target], entropy of that distribution (nats; may be null). The bits of logprob equal those that
  // inference reports.
  void ForwardTrain(const float* weights, const PackedBatch& batch, const ScoredRows& scored, float temperature,
                    std::byte* workspace, float* logprob, float* entropy) const;
  // After ForwardTrain of the same pack, with the same scored rows, temperature and workspace: gradients += for loss =
  // sum_i weight[i] * logprob[i]. `gradients` has the layout of the weights.
  void BackwardTrain(const float* weights, const PackedBatch& batch, const ScoredRows& scored, float temperature,
                     const float* weight, std::byte* workspace, float* gradients) const;

  const ModelConfig& config() const { return config_; }
  const WeightManifest& manifest() const { return manifest_; }

 private:
  // Offsets of a layer's weights, in elements.
  struct LayerOffsets {
    uint64_t norm1, qkv, o, norm2, gate_up, down;
  };
  // The rows of one layer; output may be the input.
  struct LayerRows {
    const float* input;
    const float* attention;
    float *middle, *norm, *gate_up, *activation, *output;
  };

  AttentionShape attention_shape() const;
  LinearShape Shape(int rows, int k, int n) const;
  // Both forwards are these around their attention: norm, qkv and rotation; then everything behind the attention.
  void LayerHead(const float* weights, int layer, int rows, const float* input, const float* angles, float* norm,
                 float* qkv) const;
  void LayerTail(const float* weights, int layer, int rows, const LayerRows& r) const;
  void ScoreForward(const float* weights, const ScoredRows& scored, float temperature, const TrainBuffers& b,
                    float* logprob, float* entropy) const;
  void ScoreBackward(const float* weights, const ScoredRows& scored, int rows, float temperature, const float* weight,
                     const TrainBuffers& b, float* gradients) const;
  void MlpBackward(const float* weights, int layer, int rows, const TrainBuffers& b, float* gradients) const;
  void AttentionBackward(const float* weights, int layer, const PackedBatch& batch, const TrainBuffers& b,
                         float* gradients) const;

  ModelConfig config_;
  WeightManifest manifest_;
  Kernels& kernels_;
  std::vector<LayerOffsets> layers_;
  uint64_t embed_ = 0, norm_ = 0, head_ = 0;
};

}  // namespace tandem
