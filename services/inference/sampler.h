#pragma once
// Chooses one token from one row of logits: temperature, then top_k, then top_p (the smallest set of most likely tokens
// that reaches p, the crossing token kept), then a draw. One token always remains.
//
// A choice is a function of (logits, params, uniform) alone: sums run in a fixed order, ties go to the lowest id. It
// does not compute reported log-probabilities: those come from the kernels' log-softmax on the same row. Owns its
// scratch memory (a few words per vocabulary entry): one Sampler per thread.

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "services/inference/sampling_params.h"

namespace tandem::inference {

// The random number of one choice, in [0, 1): Philox keyed by the request's seed, counted by the completion's index and
// the position of the token that is chosen.
double SampleUniform(uint64_t seed, uint64_t sample_index, int position);

class Sampler {
 public:
  // The id chosen. Logits are not divided by the temperature. If they are not finite the id is in range but means
  // nothing.
  int Sample(absl::Span<const float> logits, const SamplingParams& params, double uniform);

 private:
  int Draw(absl::Span<const float> logits, float temperature, double uniform);
  int DrawFiltered(absl::Span<const float> logits, const SamplingParams& params, double uniform);

  std::vector<float> weights_;      // exp((logit - max) / temperature)
  std::vector<double> block_sums_;  // sums over blocks of weights_
  std::vector<int> order_;          // a heap of ids, most likely first
  std::vector<int> kept_;           // ids that remain, most likely first
  std::vector<double> cumulative_;  // weights of kept_, summed
};

// Lowest id among the largest logits.
int Argmax(absl::Span<const float> logits);

}  // namespace tandem::inference
