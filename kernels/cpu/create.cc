#include "kernels/cpu/create.h"

#include <stdio.h>

#include "kernels/cpu/cpu_kernels.h"

#define TANDEM_TEXT_OF(x) #x
#define TANDEM_TEXT(x) TANDEM_TEXT_OF(x)

namespace tandem::TANDEM_ISA {

CpuKernels::CpuKernels(ThreadPool* pool) : pool_(*pool) {
  snprintf(description_, sizeof(description_), "cpu %s, %d threads", TANDEM_TEXT(TANDEM_ISA), pool->threads());
}

CpuKernels::~CpuKernels() {
  delete &pool_;
}

Kernels* CreateCpuKernels(ThreadPool* pool) {
  return new CpuKernels(pool);
}

}  // namespace tandem::TANDEM_ISA
