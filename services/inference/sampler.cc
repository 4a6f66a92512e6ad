#include "services/inference/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/base/philox.h"

namespace tandem::inference {
namespace {

constexpr size_t kSumBlock = 64;

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
  const bool all = params.top_k <= 0 || static_cast<size_t>(params.top_k) >= logits.size();
  if (all && params.top_p >= 1.0) return Draw(logits, params.temperature, uniform);
  return DrawFiltered(logits, params, uniform);
}

// Inverse of the cumulative distribution in order of ids. Sums of blocks first, so that the second pass reads one
// block.
int Sampler::Draw(absl::Span<const float> logits, float temperature, double uniform) {
  const size_t size = logits.size();
  const float max = *std::max_element(logits.begin(), logits.end());
  weights_.resize(size);
  block_sums_.clear();
  double total = 0;
  for (size_t begin = 0; begin < size; begin += kSumBlock) {
    const size_t end = std::min(begin + kSumBlock, size);
    double sum = 0;
    for (size_t i = begin; i < end; ++i) {
      weights_[i] = std::exp((logits[i] - max) / temperature);
      sum += weights_[i];
    }
    block_sums_.push_back(sum);
    total += sum;
  }
  const double target = uniform * total;
  double before = 0;
  size_t block = 0;
  while (block + 1 < block_sums_.size() && before + block_sums_[block] <= target) before += block_sums_[block++];
  int chosen = Argmax(logits);  // if rounding leaves the target beyond the last weight
  for (size_t i = block * kSumBlock; i < std::min((block + 1) * kSumBlock, size); ++i) {
    if (weights_[i] == 0.0F) continue;
    chosen = static_cast<int>(i);
    before += weights_[i];
    if (before > target) break;
  }
  return chosen;
}

int Sampler::DrawFiltered(absl::Span<const float> logits, const SamplingParams& params, double uniform) {
  const auto likelier_last = [&](int a, int b) {  // heap order: the most likely on top, ties to the lowest id
    const float x = logits[static_cast<size_t>(a)];
    const float y = logits[static_cast<size_t>(b)];
    return x < y || (x == y && a > b);
  };
  const float max = *std::max_element(logits.begin(), logits.end());
  const auto weight = [&](int id) {
    return static_cast<double>(std::exp((logits[static_cast<size_t>(id)] - max) / params.temperature));
  };
  order_.resize(logits.size());
  std::iota(order_.begin(), order_.end(), 0);
  const bool cut = params.top_k > 0 && static_cast<size_t>(params.top_k) < logits.size();
  if (cut) {
    std::nth_element(order_.begin(), order_.begin() + params.top_k - 1, order_.end(),
                     [&](int a, int b) { return likelier_last(b, a); });
    order_.resize(static_cast<size_t>(params.top_k));
    std::sort(order_.begin(), order_.end());  // the sum below runs in order of ids
  }
  double total = 0;
  for (const int id : order_) total += weight(id);
  const double reach = params.top_p * total;
  std::make_heap(order_.begin(), order_.end(), likelier_last);
  kept_.clear();
  cumulative_.clear();
  double sum = 0;
  for (auto end = order_.end(); end != order_.begin() && (kept_.empty() || sum < reach || params.top_p >= 1.0); --end) {
    std::pop_heap(order_.begin(), end, likelier_last);
    const int id = *(end - 1);
    sum += weight(id);
    kept_.push_back(id);
    cumulative_.push_back(sum);
  }
  const auto at = std::upper_bound(cumulative_.begin(), cumulative_.end(), uniform * sum);
  const auto index = static_cast<size_t>(
      std::min<std::ptrdiff_t>(at - cumulative_.begin(), static_cast<std::ptrdiff_t>(kept_.size()) - 1));
  return kept_[index];
}

}  // namespace tandem::inference
