#pragma once
// Chooses one token from one row of logits: temperature, then top_k, then top_p (the smallest set of most likely tokens
// that reaches p, the crossing token kept), then a draw. One token always remains.
//
// A choice is a function of (logits, params, uniform) alone: sums run in a fixed order, ties go to the lowest id. It
// does not compute reported log-probabilities: those come from the kernels' log-softmax on the same row.
// Owns its scratch memory (a few words per vocabulary entry): one Sampler per thread.

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
  struct Candidate {
    float logit = 0;
    int id = 0;
    // More likely; of equal ones the lower id.
    bool operator<(const Candidate& other) const {
      return logit > other.logit || (logit == other.logit && id < other.id);
    }
  };

  // weights_ = exp((logit - max) / temperature) and their sums; returns the total.
  double Weigh(absl::Span<const float> logits, float max, float temperature);
  int DrawFromAll(double target);
  // candidates_ = the k most likely, most likely first.
  void KeepTopK(absl::Span<const float> logits, size_t k);
  // candidates_ = as many of the most likely, most likely first, as reach `mass`.
  void KeepTopP(absl::Span<const float> logits, float max, float temperature, double mass);

  std::vector<float> weights_;
  std::vector<double> block_sums_;  // sums over blocks of weights_
  std::vector<Candidate> candidates_;
};

// Lowest id among the largest logits.
int Argmax(absl::Span<const float> logits);

}  // namespace tandem::inference
