#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace tandem::TANDEM_ISA {
namespace {

TANDEM_INLINE F16 Sigmoid(F16 x) {
  return Div(Set(1.0F), Add(Set(1.0F), Exp(Sub(Zero16(), x))));
}

void ForwardRow(const float* gate, const float* up, int n, float* out) {
  for (int j = 0; j < n; j += kLanes) {
    const int lanes = n - j < kLanes ? n - j : kLanes;
    const F16 g = Load(gate + j, lanes);
    Store(out + j, Mul(Mul(g, Sigmoid(g)), Load(up + j, lanes)), lanes);
  }
}

// d silu(g) / dg = s (1 + g (1 - s)), s = sigmoid(g).
void BackwardRow(const float* gate, const float* up, const float* dout, int n, float* dgate, float* dup) {
  for (int j = 0; j < n; j += kLanes) {
    const int lanes = n - j < kLanes ? n - j : kLanes;
    const F16 g = Load(gate + j, lanes);
    const F16 d = Load(dout + j, lanes);
    const F16 s = Sigmoid(g);
    const F16 slope = Mul(s, Fma(g, Sub(Set(1.0F), s), Set(1.0F)));
    Store(dgate + j, Mul(Mul(d, Load(up + j, lanes)), slope), lanes);
    Store(dup + j, Mul(d, Mul(g, s)), lanes);
  }
}

}  // namespace

void CpuKernels::SwiGlu(const float* gate_up, int rows, int n, float* out) {
  ParallelRange(pool_, rows, int64_t{4} * n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float* gate = gate_up + i * 2 * n;
      ForwardRow(gate, gate + n, n, out + i * n);
    }
  });
}

void CpuKernels::SwiGluBackward(const float* gate_up, const float* dout, int rows, int n, float* dgate_up) {
  ParallelRange(pool_, rows, int64_t{6} * n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = i * 2 * n;
      BackwardRow(gate_up + at, gate_up + at + n, dout + i * n, n, dgate_up + at, dgate_up + at + n);
    }
  });
}

}  // namespace tandem::TANDEM_ISA
