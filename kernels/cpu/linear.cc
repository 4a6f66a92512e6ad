// Linear forward: every output element is one chain of fused multiply-adds over k ascending, from 0. Few rows stream
// the weights once from memory (FewRows); more rows go through packed panels (Gemm). Both make the same chains, so the
// choice shows in the time only.

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace tandem::TANDEM_ISA {
namespace {

constexpr int kFewRows = 16;
// Rows of w that are read side by side: eight streams for the hardware prefetcher, held in registers for all rows of x.
#if defined(__AVX512F__)
constexpr int kSteps = 8;
#else
constexpr int kSteps = 4;
#endif
constexpr int64_t kColumns = 512;  // of a task; its outputs stay in the first-level cache

struct Block {
  const float* x;
  const float* w;
  const float* residual;  // null except in the last block
  float* out;
  bool first;
};

// out[:, j .. j + lanes) = chain over kSteps values of k, begun at 0 or continued from out.
template <int kDepth>
TANDEM_INLINE void Column(const LinearShape& s, const Block& block, int64_t j, int lanes) {
  F16 w[kDepth];
#pragma GCC unroll 8
  for (int k = 0; k < kDepth; ++k) w[k] = Load(block.w + k * s.stride + j, lanes);
  for (int i = 0; i < s.rows; ++i) {
    const float* x = block.x + int64_t{i} * s.k;
    float* out = block.out + int64_t{i} * s.n + j;
    F16 sum = block.first ? Zero16() : Load(out, lanes);
#pragma GCC unroll 8
    for (int k = 0; k < kDepth; ++k) sum = Fma(Set(x[k]), w[k], sum);
    if (block.residual) sum = Add(sum, Load(block.residual + int64_t{i} * s.n + j, lanes));
    Store(out, sum, lanes);
  }
}

template <int kDepth>
void Columns(const LinearShape& s, const Block& block, int64_t begin, int64_t end) {
  int64_t j = begin;
  for (; j + kLanes <= end; j += kLanes) Column<kDepth>(s, block, j, kLanes);
  if (j < end) Column<kDepth>(s, block, j, static_cast<int>(end - j));
}

void FewRows(const LinearShape& s, const float* x, const float* w, const float* residual, float* out, int64_t begin,
             int64_t end) {
  for (int k = 0; k < s.k;) {
    const int depth = k + kSteps <= s.k ? kSteps : 1;
    const bool last = k + depth == s.k;
    const Block block{x + k, w + k * s.stride, last ? residual : nullptr, out, k == 0};
    if (depth == kSteps) {
      Columns<kSteps>(s, block, begin, end);
    } else {
      Columns<1>(s, block, begin, end);
    }
    k += depth;
  }
}

}  // namespace

void CpuKernels::Linear(const LinearShape& shape, const float* x, const float* w, const float* residual, float* out) {
  if (shape.rows > kFewRows) {
    return Gemm(pool_, {.i = shape.rows,
                        .j = shape.n,
                        .r = shape.k,
                        .a = {x, shape.k, true},
                        .b = {w, shape.stride, false},
                        .c = out,
                        .c_stride = shape.n,
                        .sum = GemmSum::kChain,
                        .residual = residual});
  }
  const int64_t per_thread = (int64_t{shape.n} / pool_.threads() + kLanes) / kLanes * kLanes;
  const int64_t columns = per_thread < kColumns ? per_thread : kColumns;
  ParallelTasks(pool_, (shape.n + columns - 1) / columns, [&](int64_t task, int) {
    const int64_t begin = task * columns;
    FewRows(shape, x, w, residual, out, begin, begin + columns < shape.n ? begin + columns : shape.n);
  });
}

}  // namespace tandem::TANDEM_ISA
