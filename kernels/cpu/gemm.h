#pragma once
// The blocked matrix product behind Linear and its backwards: c[i, j] from sum over r of a(i, r) b(r, j).
//
// Each element is summed over r in ascending order in blocks of kReduceBlock that begin at 0, whatever the tiles and
// threads are. Operands are packed into panels in the threads' scratch, which is of a fixed size.

#include <cstdint>

#include "kernels/cpu/thread_pool.h"

namespace tandem::TANDEM_ISA {

// An operand in memory: row-major with rows `stride` apart; `across` says that the reduction runs along a row.
struct GemmOperand {
  const float* data = nullptr;
  int64_t stride = 0;
  bool across = false;
};

enum class GemmSum {
  kChain,          // c = one chain of fused multiply-adds from 0 (+ residual at the end, unless null)
  kBlocks,         // c = sum of the blocks' chains: nearer to the exact sum
  kBlocksOntoOld,  // c += sum of the blocks' chains
};

struct GemmProblem {
  int64_t i = 0, j = 0, r = 0;
  GemmOperand a;  // a(i, r): across: data[i * stride + r], else data[r * stride + i]
  GemmOperand b;  // b(r, j): across: data[j * stride + r], else data[r * stride + j]
  float* c = nullptr;
  int64_t c_stride = 0;
  GemmSum sum = GemmSum::kChain;
  const float* residual = nullptr;  // [i, j], rows c_stride apart
};

void Gemm(ThreadPool& pool, const GemmProblem& problem);

}  // namespace tandem::TANDEM_ISA
