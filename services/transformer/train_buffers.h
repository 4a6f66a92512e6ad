#pragma once
// The workspace of a training pack: what the forward keeps for the backward, and scratch. The cheap rest (norms,
// SwiGLU, logits) is computed again.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "services/checkpoint/model_config.h"

namespace tandem {

// What is kept of a layer; T tokens.
struct LayerActivations {
  float* input;      // [T, hidden]
  float* qkv;        // [T, qkv], q and k rotated
  float* attention;  // [T, q]
  float* lse;        // [T, heads]
  float* middle;     // [T, hidden], after the attention's residual
  float* gate_up;    // [T, 2 * intermediate]
};

struct TrainBuffers {
  // Lays the arrays out from `base`; null only counts `bytes`.
  TrainBuffers(const ModelConfig& config, int max_tokens, int max_scored, std::byte* base);

  std::vector<LayerActivations> layers;
  float* output;      // [T, hidden] of the last layer
  int* positions;     // [T]
  float* angles;      // [T, head_dim]
  float* scored;      // [S, hidden] final-norm output of the scored rows
  float* lse;         // [S]
  float* logits;      // [logit_rows, vocab] in the forward, [S, logit_columns] in the backward
  int logit_rows;     // of a chunk of the forward
  int logit_columns;  // of a slice of the backward
  // Scratch of both directions.
  float* norm;        // [T, hidden]
  float* activation;  // [T, intermediate]
  // Scratch of the backward: gradients of what their names say.
  float* dhidden;        // [T, hidden] of the layer's output, then of its middle, then of its input
  float* dnorm;          // [T, hidden]
  float* dactivation;    // [T, intermediate]
  float* dgate_up;       // [T, 2 * intermediate]
  float* dattention;     // [T, q]
  float* dqkv;           // [T, qkv]
  float* scored_input;   // [S, hidden] input of the final norm
  float* dscored;        // [S, hidden] of the final norm's output
  float* dscored_input;  // [S, hidden]
  uint64_t bytes = 0;
};

}  // namespace tandem
