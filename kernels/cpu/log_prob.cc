#include <math.h>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace tandem::TANDEM_ISA {
namespace {

constexpr int kSums = 4;  // accumulators side by side; vector v of a row goes to accumulator v % kSums
constexpr float kInfinity = __builtin_inff();

float InverseTemperature(float temperature) {
  return temperature == 0.0F ? 1.0F : 1.0F / temperature;
}

float RowMax(const float* logits, int n, F16 scale) {
  F16 most = Set(-kInfinity);
  for (int j = 0; j < n; j += kLanes) {
    const int lanes = n - j < kLanes ? n - j : kLanes;
    most = Max(Blend(Mul(Load(logits + j, lanes), scale), Set(-kInfinity), lanes), most);
  }
  return MaxLanes(most);
}

struct Sums {
  F16 exp;     // e^(z - max)
  F16 moment;  // (z - max) e^(z - max)
};

TANDEM_INLINE void Accumulate(const float* logits, int lanes, F16 scale, F16 most, Sums& sums) {
  const F16 z = Sub(Mul(Load(logits, lanes), scale), most);
  const F16 e = Blend(Exp(z), Zero16(), lanes);
  sums.exp = Add(sums.exp, e);
  sums.moment = Fma(e, z, sums.moment);
}

Sums RowSums(const float* logits, int n, F16 scale, F16 most) {
  Sums sums[kSums];
  for (Sums& s : sums) s = {Zero16(), Zero16()};
  int j = 0;
  for (; j + kSums * kLanes <= n; j += kSums * kLanes) {
#pragma GCC unroll 4
    for (int v = 0; v < kSums; ++v) Accumulate(logits + j + v * kLanes, kLanes, scale, most, sums[v]);
  }
#pragma GCC unroll 4
  for (int v = 0; v < kSums; ++v) {
    const int left = n - j - v * kLanes;
    if (left > 0) Accumulate(logits + j + v * kLanes, left < kLanes ? left : kLanes, scale, most, sums[v]);
  }
  return {Add(Add(sums[0].exp, sums[1].exp), Add(sums[2].exp, sums[3].exp)),
          Add(Add(sums[0].moment, sums[1].moment), Add(sums[2].moment, sums[3].moment))};
}

void BackwardRow(int n, float scale, float lse, float weight, float* logits) {
  const F16 negative = Set(-weight * scale);
  for (int j = 0; j < n; j += kLanes) {
    const int lanes = n - j < kLanes ? n - j : kLanes;
    const F16 z = Sub(Mul(Load(logits + j, lanes), Set(scale)), Set(lse));
    Store(logits + j, Mul(Exp(z), negative), lanes);
  }
}

}  // namespace

void CpuKernels::LogProb(const float* logits, int rows, int vocab, float temperature, const int* targets,
                         float* logprob, float* entropy, float* lse) {
  const float scale = InverseTemperature(temperature);
  ParallelRange(pool_, rows, int64_t{4} * vocab, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float* row = logits + i * vocab;
      const float most = RowMax(row, vocab, Set(scale));
      const Sums sums = RowSums(row, vocab, Set(scale), Set(most));
      const float total = SumLanes(sums.exp);
      const auto log_total = static_cast<float>(log(static_cast<double>(total)));
      logprob[i] = (row[targets[i]] * scale - most) - log_total;
      if (entropy) entropy[i] = log_total - SumLanes(sums.moment) / total;
      if (lse) lse[i] = most + log_total;
    }
  });
}

void CpuKernels::LogProbBackward(int rows, int first, int n, float temperature, const int* targets, const float* lse,
                                 const float* weight, float* logits) {
  const float scale = InverseTemperature(temperature);
  ParallelRange(pool_, rows, int64_t{4} * n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      BackwardRow(n, scale, lse[i], weight[i], logits + i * n);
      const int column = targets[i] - first;
      if (column >= 0 && column < n) logits[i * n + column] += weight[i] * scale;
    }
  });
}

}  // namespace tandem::TANDEM_ISA
