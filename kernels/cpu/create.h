#pragma once
// The two builds of the CPU twin. MakeCpuKernels chooses; the result owns the pool.

#include "kernels/cpu/thread_pool.h"
#include "kernels/kernels.h"

namespace tandem::avx2 {
Kernels* CreateCpuKernels(ThreadPool* pool);
}

namespace tandem::avx512 {
Kernels* CreateCpuKernels(ThreadPool* pool);
}
