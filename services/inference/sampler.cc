#include "services/inference/sampler.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "common/base/philox.h"

namespace tandem::inference {
namespace {

constexpr size_t kSumBlock = 64;

// exp(x) for x <= 0 within 2e-7 relative; 0 below -87. Nothing but IEEE operations, so the loop over
// a vocabulary may be vectorised and has the bits of the scalar.
inline float ExpOfNegative(float x) {
  constexpr float kToInteger = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  const float clamped = x > -87.0F ? x : -87.0F;
  const float shifted = clamped * 1.44269504F + kToInteger;
  const float n = shifted - kToInteger;
  const float r = (clamped - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;  // coefficients of Cephes' expf
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const float value = (p * r * r + r) + 1.0F;
  const uint32_t exponent = (std::bit_cast<uint32_t>(shifted) << 23) + std::bit_cast<uint32_t>(value);
  return x > -87.0F ? std::bit_cast<float>(exponent) : 0.0F;
}

float Max(absl::Span<const float> logits) {
  float max = logits[0];
  for (const float logit : logits) max = logit > max ? logit : max;
  return max;
}

}  // namespace

double SampleUniform(uint64_t seed, uint64_t sample_index, int position) {
  const auto words = Philox(seed, static_cast<uint64_t>(position), sample_index);
  return UniformDouble(words[0], words[1]);
}

int Argmax(absl::Span<const float> logits) {
  size_t best = 0;
  for (size_t i = 1; i < logits.size(); ++i) {
    if (logits[i] > logits[best]) best = i;
  }
  return static_cast<int>(best);
}

int Sampler::Sample(absl::Span<const float> logits, const SamplingParams& params, double uniform) {
  if (params.temperature == 0.0F || params.top_k == 1) return Argmax(logits);
  const float max = Max(logits);
  const float temperature = params.temperature;
  const auto weight = [&](const Candidate& c) -> double { return ExpOfNegative((c.logit - max) / temperature); };
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < logits.size()) {
    KeepTopK(logits, static_cast<size_t>(params.top_k));
    double total = 0;
    for (const Candidate& candidate : candidates_) total += weight(candidate);
    double sum = 0;
    size_t kept = 0;
    while (kept < candidates_.size() && (kept == 0 || sum < params.top_p * total)) sum += weight(candidates_[kept++]);
    candidates_.resize(kept);
  } else {
    const double total = Weigh(logits, max, temperature);
    if (params.top_p >= 1.0) return DrawFromAll(uniform * total);
    KeepTopP(logits, max, temperature, params.top_p * total);
  }
  double total = 0;
  for (const Candidate& candidate : candidates_) total += weight(candidate);
  double sum = 0;
  for (const Candidate& candidate : candidates_) {
    sum += weight(candidate);
    if (sum > uniform * total) return candidate.id;
  }
  return candidates_.front().id;
}

double Sampler::Weigh(absl::Span<const float> logits, float max, float temperature) {
  const size_t size = logits.size();
  weights_.resize(size);
  float* weights = weights_.data();
  for (size_t i = 0; i < size; ++i) weights[i] = ExpOfNegative((logits[i] - max) / temperature);
  block_sums_.clear();
  double total = 0;
  for (size_t begin = 0; begin < size; begin += kSumBlock) {
    const size_t end = std::min(begin + kSumBlock, size);
    double even = 0;
    double odd = 0;
    size_t i = begin;
    for (; i + 1 < end; i += 2) {
      even += weights[i];
      odd += weights[i + 1];
    }
    if (i < end) even += weights[i];
    block_sums_.push_back(even + odd);
    total += block_sums_.back();
  }
  return total;
}

// Inverse of the cumulative distribution in order of ids.
int Sampler::DrawFromAll(double target) {
  double before = 0;
  size_t block = 0;
  while (block + 1 < block_sums_.size() && before + block_sums_[block] <= target) before += block_sums_[block++];
  const size_t end = std::min((block + 1) * kSumBlock, weights_.size());
  size_t id = block * kSumBlock;
  while (id + 1 < end && before + weights_[id] <= target) before += weights_[id++];
  return static_cast<int>(id);
}

void Sampler::KeepTopK(absl::Span<const float> logits, size_t k) {
  candidates_.clear();
  for (size_t i = 0; i < k; ++i) candidates_.push_back({logits[i], static_cast<int>(i)});
  std::make_heap(candidates_.begin(), candidates_.end());  // the least likely on top
  for (size_t i = k; i < logits.size(); ++i) {
    if (!(logits[i] > candidates_.front().logit)) continue;  // an equal one has a higher id
    std::pop_heap(candidates_.begin(), candidates_.end());
    candidates_.back() = {logits[i], static_cast<int>(i)};
    std::push_heap(candidates_.begin(), candidates_.end());
  }
  std::sort_heap(candidates_.begin(), candidates_.end());
}

// Looks at ever more of the tail until what it has reaches the mass.
void Sampler::KeepTopP(absl::Span<const float> logits, float max, float temperature, double mass) {
  for (float depth = 2.0F;; depth *= 2) {
    const bool all = depth > 200.0F;
    const float least = all ? -std::numeric_limits<float>::infinity() : max - depth * temperature;
    candidates_.clear();
    double sum = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      if (!(logits[i] >= least)) continue;
      candidates_.push_back({logits[i], static_cast<int>(i)});
      sum += weights_[i];
    }
    if (sum < mass && !all) continue;
    if (candidates_.empty()) candidates_.push_back({max, 0});  // not finite
    std::sort(candidates_.begin(), candidates_.end());
    sum = 0;
    size_t kept = 0;
    while (kept < candidates_.size() && (kept == 0 || sum < mass)) {
      sum += weights_[static_cast<size_t>(candidates_[kept++].id)];
    }
    candidates_.resize(kept);
    return;
  }
}

}  // namespace tandem::inference
