// Zero, Scale, GatherRows, ScatterRows.

#include <string.h>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace tandem::TANDEM_ISA {

void CpuKernels::Zero(float* x, int64_t n) {
  ParallelRange(pool_, n, 1, kLanes,
                [&](int64_t begin, int64_t end) { memset(x + begin, 0, (end - begin) * sizeof(float)); });
}

void CpuKernels::Scale(float* x, int64_t n, float factor) {
  ParallelRange(pool_, n, 1, kLanes, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) x[i] *= factor;
  });
}

void CpuKernels::GatherRows(const float* x, const int* rows, int count, int n, float* out) {
  ParallelRange(pool_, count, n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) memcpy(out + i * n, x + int64_t{rows[i]} * n, n * sizeof(float));
  });
}

void CpuKernels::ScatterRows(const float* x, const int* rows, int count, int n, float* out) {
  ParallelRange(pool_, count, n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) memcpy(out + int64_t{rows[i]} * n, x + i * n, n * sizeof(float));
  });
}

}  // namespace tandem::TANDEM_ISA
