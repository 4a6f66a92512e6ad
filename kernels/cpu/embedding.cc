// Embedding lookup in a table that is stored as the head is, [hidden, vocab]: a token is a column. A task takes sixteen
// rows of the table, so that a token's values for it fill one cache line of the output.

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace tandem::TANDEM_ISA {

void CpuKernels::Embedding(const float* table, const int* tokens, int rows, int hidden, int vocab, float* out) {
  ParallelRange(pool_, hidden, int64_t{16} * rows, kLanes, [&](int64_t begin, int64_t end) {
    for (int64_t i = 0; i < rows; ++i) {
      const float* column = table + tokens[i];
      for (int64_t h = begin; h < end; ++h) out[i * hidden + h] = column[h * vocab];
    }
  });
}

void CpuKernels::EmbeddingBackward(const float* dout, const int* tokens, int rows, int hidden, int vocab,
                                   float* dtable) {
  ParallelRange(pool_, hidden, int64_t{16} * rows, kLanes, [&](int64_t begin, int64_t end) {
    for (int64_t i = 0; i < rows; ++i) {
      float* column = dtable + tokens[i];
      for (int64_t h = begin; h < end; ++h) column[h * vocab] += dout[i * hidden + h];
    }
  });
}

}  // namespace tandem::TANDEM_ISA
