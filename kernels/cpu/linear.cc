// Linear forward: every output element is one chain of fused multiply-adds over k ascending, from 0. Few rows stream
// the weights once from memory (FewRows); more rows go through packed panels (Gemm). Both make the same chains, so the
// choice shows in the time only.

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace tandem::TANDEM_ISA {
namespace {

constexpr int kFewRows = 32;
// Rows of w that are read side by side: eight streams for the hardware prefetcher, held in registers for all rows of x.
#if defined(__AVX512F__)
constexpr int kSteps = 8;
#else
constexpr int kSteps = 4;
#endif
// Partial sums of a task stay in the first-level cache, in scratch of their own: rows of the output may lie a multiple
// of 4096 bytes apart, which such a cache keeps in a single set.
constexpr int64_t kSums = 4096;

// Partial sums of a row, and so the most columns of a task: an odd number of cache lines, for the same reason.
TANDEM_INLINE int64_t SumsStride(int rows) {
  return ((kSums / rows / kLanes - 1) | 1) * kLanes;
}

// Columns [j, j + lanes) of kDepth rows of w, from x[:, 0] on: sums = their chain, begun at 0 or continued from sums.
template <int kDepth>
TANDEM_INLINE void Column(const LinearShape& s, const float* x, const float* w, int64_t j, int lanes, bool first,
                          float* sums) {
  F16 weights[kDepth];
#pragma GCC unroll 8
  for (int k = 0; k < kDepth; ++k) {
    weights[k] = Load(w + k * s.stride + j, lanes);
    Prefetch(w + (k + kDepth) * s.stride + j);  // the next block; past the end it does nothing
  }
  const int64_t stride = SumsStride(s.rows);
  for (int i = 0; i < s.rows; ++i) {
    const float* row = x + int64_t{i} * s.k;
    float* at = sums + i * stride + j;
    F16 sum = first ? Zero16() : Load(at);
#pragma GCC unroll 8
    for (int k = 0; k < kDepth; ++k) sum = Fma(Set(row[k]), weights[k], sum);
    Store(at, sum);
  }
}

template <int kDepth>
void Columns(const LinearShape& s, const float* x, const float* w, int64_t columns, bool first, float* sums) {
  int64_t j = 0;
  for (; j + kLanes <= columns; j += kLanes) Column<kDepth>(s, x, w, j, kLanes, first, sums);
  if (j < columns) Column<kDepth>(s, x, w, j, static_cast<int>(columns - j), first, sums);
}

void FinishRow(const float* sums, const float* residual, int64_t columns, float* out) {
  for (int64_t j = 0; j < columns; j += kLanes) {
    const int lanes = columns - j < kLanes ? static_cast<int>(columns - j) : kLanes;
    const F16 sum = Load(sums + j);
    Store(out + j, residual ? Add(sum, Load(residual + j, lanes)) : sum, lanes);
  }
}

// `columns` columns from w, residual and out on.
void FewRows(const LinearShape& s, const float* x, const float* w, const float* residual, int64_t columns, float* out,
             float* sums) {
  for (int k = 0; k < s.k;) {
    const int depth = k + kSteps <= s.k ? kSteps : 1;
    if (depth == kSteps) {
      Columns<kSteps>(s, x + k, w + k * s.stride, columns, k == 0, sums);
    } else {
      Columns<1>(s, x + k, w + k * s.stride, columns, k == 0, sums);
    }
    k += depth;
  }
  for (int i = 0; i < s.rows; ++i) {
    const int64_t at = int64_t{i} * s.n;
    FinishRow(sums + i * SumsStride(s.rows), residual ? residual + at : nullptr, columns, out + at);
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
  const int64_t most = SumsStride(shape.rows) < 512 ? SumsStride(shape.rows) : 512;
  const int64_t columns = per_thread < most ? per_thread : most;
  ParallelTasks(pool_, (shape.n + columns - 1) / columns, [&](int64_t task, int thread) {
    const int64_t begin = task * columns;
    FewRows(shape, x, w + begin, residual ? residual + begin : nullptr,
            begin + columns < shape.n ? columns : shape.n - begin, out + begin, pool_.scratch(thread));
  });
}

}  // namespace tandem::TANDEM_ISA
