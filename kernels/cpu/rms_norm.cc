#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace tandem::TANDEM_ISA {
namespace {

int Lanes(int64_t left) {
  return left < kLanes ? static_cast<int>(left) : kLanes;
}

float InverseRms(const float* x, int n, float epsilon) {
  F16 squares = Zero16();
  for (int j = 0; j < n; j += kLanes) {
    const F16 v = Load(x + j, Lanes(n - j));
    squares = Fma(v, v, squares);
  }
  return 1.0F / __builtin_sqrtf(SumLanes(squares) / static_cast<float>(n) + epsilon);
}

void NormRow(const float* x, const float* weight, int n, float epsilon, float* out) {
  const F16 scale = Set(InverseRms(x, n, epsilon));
  for (int j = 0; j < n; j += kLanes) {
    const int lanes = Lanes(n - j);
    Store(out + j, Mul(Mul(Load(x + j, lanes), scale), Load(weight + j, lanes)), lanes);
  }
}

// With r = 1 / rms: dx += r (g - x r^2 mean(g x)), where g = dout * weight. Returns r.
float BackwardRow(const float* x, const float* weight, const float* dout, int n, float epsilon, float* dx) {
  const float inverse_rms = InverseRms(x, n, epsilon);
  F16 dot = Zero16();
  for (int j = 0; j < n; j += kLanes) {
    const int lanes = Lanes(n - j);
    dot = Fma(Mul(Load(dout + j, lanes), Load(weight + j, lanes)), Load(x + j, lanes), dot);
  }
  const F16 r = Set(inverse_rms);
  const F16 shift = Set(-inverse_rms * inverse_rms * (SumLanes(dot) / static_cast<float>(n)));
  for (int j = 0; j < n; j += kLanes) {
    const int lanes = Lanes(n - j);
    const F16 g = Mul(Load(dout + j, lanes), Load(weight + j, lanes));
    const F16 inner = Fma(Load(x + j, lanes), shift, g);
    Store(dx + j, Fma(inner, r, Load(dx + j, lanes)), lanes);
  }
  return inverse_rms;
}

// dweight[j .. j + lanes) += sum over rows of dout * x * inverse_rms[row].
void WeightColumn(const float* x, const float* dout, const float* inverse_rms, int64_t rows, int64_t n, int lanes,
                  float* dweight) {
  F16 sum = Zero16();
  for (int64_t i = 0; i < rows; ++i) {
    sum = Fma(Mul(Load(dout + i * n, lanes), Load(x + i * n, lanes)), Set(inverse_rms[i]), sum);
  }
  Store(dweight, Add(Load(dweight, lanes), sum), lanes);
}

}  // namespace

void CpuKernels::RmsNorm(const float* x, const float* weight, int rows, int n, float epsilon, float* out) {
  ParallelRange(pool_, rows, n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) NormRow(x + i * n, weight, n, epsilon, out + i * n);
  });
}

void CpuKernels::RmsNormBackward(const float* x, const float* weight, const float* dout, int rows, int n, float epsilon,
                                 float* dx, float* dweight) {
  // Rows first, then columns, in blocks of rows whose 1 / rms fit in the scratch of the calling thread.
  constexpr int64_t kRowBlock = 4096;
  float* inverse_rms = pool_.scratch(0);
  for (int64_t first = 0; first < rows; first += kRowBlock) {
    const int64_t count = rows - first < kRowBlock ? rows - first : kRowBlock;
    ParallelRange(pool_, count, int64_t{3} * n, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at = (first + i) * n;
        inverse_rms[i] = BackwardRow(x + at, weight, dout + at, n, epsilon, dx + at);
      }
    });
    ParallelRange(pool_, n, count, kLanes, [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; j += kLanes) {
        WeightColumn(x + first * n + j, dout + first * n + j, inverse_rms, count, n, Lanes(end - j), dweight + j);
      }
    });
  }
}

}  // namespace tandem::TANDEM_ISA
