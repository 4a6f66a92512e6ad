#include <sched.h>

#include <cstdio>
#include <cstdlib>

#include "kernels/cpu/create.h"

namespace tandem {
namespace {

bool CpuHasAvx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

int UsableProcessors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return CPU_COUNT(&set);
}

[[noreturn]] void RefuseProcessor(const char* wanted) {
  std::fprintf(stderr,
               "this processor lacks %s, which the host device needs; run on an x86-64 machine from 2013 or later\n",
               wanted);
  std::exit(2);
}

}  // namespace

Kernels::~Kernels() = default;

bool CpuHasAvx512() {
  return CpuHasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}

std::unique_ptr<Kernels> MakeCpuKernels(int threads, CpuVectors vectors) {
  if (!CpuHasAvx2()) RefuseProcessor("AVX2 and FMA");
  if (vectors == CpuVectors::kAvx512 && !CpuHasAvx512()) RefuseProcessor("AVX-512 (F, DQ, BW, VL)");
  if (threads <= 0) threads = UsableProcessors();
  auto* pool = new ThreadPool(threads);
  const bool wide = vectors != CpuVectors::kAvx2 && CpuHasAvx512();
  return std::unique_ptr<Kernels>(wide ? avx512::CreateCpuKernels(pool) : avx2::CreateCpuKernels(pool));
}

}  // namespace tandem
