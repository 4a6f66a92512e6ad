#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/gemm.h"

namespace tandem::TANDEM_ISA {

void CpuKernels::LinearBackwardInput(const LinearShape& shape, const float* dout, const float* w, bool accumulate,
                                     float* dx) {
  Gemm(pool_, {.i = shape.rows,
               .j = shape.k,
               .r = shape.n,
               .a = {dout, shape.n, true},
               .b = {w, shape.stride, true},
               .c = dx,
               .c_stride = shape.k,
               .sum = accumulate ? GemmSum::kBlocksOntoOld : GemmSum::kBlocks});
}

void CpuKernels::LinearBackwardWeight(const LinearShape& shape, const float* x, const float* dout, float* dw) {
  Gemm(pool_, {.i = shape.k,
               .j = shape.n,
               .r = shape.rows,
               .a = {x, shape.k, false},
               .b = {dout, shape.n, false},
               .c = dw,
               .c_stride = shape.stride,
               .sum = GemmSum::kBlocksOntoOld});
}

}  // namespace tandem::TANDEM_ISA
