#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace tandem::TANDEM_ISA {
namespace {

constexpr int kPieces = 1024;             // at most; their sums stand on the stack
constexpr int64_t kPieceElements = 8192;  // at least

double PieceSum(const float* x, int64_t n) {
  constexpr int64_t kRun = 64 * kLanes;  // summed in fp32
  double total = 0;
  for (int64_t run = 0; run < n; run += kRun) {
    const int64_t end = run + kRun < n ? run + kRun : n;
    F16 sum = Zero16();
    for (int64_t i = run; i < end; i += kLanes) {
      const F16 v = Load(x + i, end - i < kLanes ? static_cast<int>(end - i) : kLanes);
      sum = Fma(v, v, sum);
    }
    total += SumLanes(sum);
  }
  return total;
}

}  // namespace

double CpuKernels::SumOfSquares(const float* x, int64_t n) {
  // Pieces depend on n only, and are added in their order.
  int64_t piece = (n + kPieces - 1) / kPieces;
  if (piece < kPieceElements) piece = kPieceElements;
  const int64_t count = (n + piece - 1) / piece;
  double sums[kPieces];
  ParallelTasks(pool_, count, [&](int64_t task, int) {
    const int64_t begin = task * piece;
    sums[task] = PieceSum(x + begin, begin + piece < n ? piece : n - begin);
  });
  double total = 0;
  for (int64_t i = 0; i < count; ++i) total += sums[i];
  return total;
}

}  // namespace tandem::TANDEM_ISA
