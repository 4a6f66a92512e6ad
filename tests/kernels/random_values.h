#pragma once
// Arrays for kernel tests, and the kernels that a machine can run.

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace tandem::testing {

inline std::vector<float> RandomValues(int64_t n, uint64_t seed, float scale = 1.0F) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  std::vector<float> x(static_cast<size_t>(n));
  for (float& v : x) v = normal(random);
  return x;
}

inline std::vector<int> RandomIndices(int64_t n, int below, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int> x(static_cast<size_t>(n));
  for (int& v : x) v = static_cast<int>(random() % static_cast<uint64_t>(below));
  return x;
}

// Every way in which the CPU twin can run here: thread counts and vector widths.
inline std::vector<std::unique_ptr<Kernels>> AllCpuKernels() {
  std::vector<std::unique_ptr<Kernels>> all;
  for (const int threads : {1, 2, 5}) {
    all.push_back(MakeCpuKernels(threads, CpuVectors::kAvx2));
    if (CpuHasAvx512()) all.push_back(MakeCpuKernels(threads, CpuVectors::kAvx512));
  }
  return all;
}

}  // namespace tandem::testing
