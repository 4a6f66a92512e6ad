#include <math.h>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace tandem::TANDEM_ISA {
namespace {

// Rotates one head in place by the angles (cos, sin), or back by their negatives with sign -1.
void RotateHead(const float* angles, int half, float sign, float* head) {
  for (int i = 0; i < half; i += kLanes) {
    const int lanes = half - i < kLanes ? half - i : kLanes;
    const F16 cosine = Load(angles + i, lanes);
    const F16 sine = Mul(Load(angles + half + i, lanes), Set(sign));
    const F16 x1 = Load(head + i, lanes);
    const F16 x2 = Load(head + half + i, lanes);
    Store(head + i, Sub(Mul(x1, cosine), Mul(x2, sine)), lanes);
    Store(head + half + i, Add(Mul(x2, cosine), Mul(x1, sine)), lanes);
  }
}

void RotateRows(ThreadPool& pool, const AttentionShape& shape, const float* angles, int rows, float sign, float* qkv) {
  const int heads = shape.heads + shape.kv_heads;
  ParallelRange(pool, rows, shape.qkv_size(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      for (int head = 0; head < heads; ++head) {
        RotateHead(angles + row * shape.head_dim, shape.head_dim / 2, sign,
                   qkv + row * shape.qkv_size() + int64_t{head} * shape.head_dim);
      }
    }
  });
}

}  // namespace

void CpuKernels::RopeAngles(const int* positions, int rows, int head_dim, double theta, float* angles) {
  const int half = head_dim / 2;
  ParallelRange(pool_, rows, int64_t{40} * head_dim, 1, [&](int64_t begin, int64_t end) {
    for (int i = 0; i < half; ++i) {
      const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
      const float inverse_frequency = 1.0F / static_cast<float>(pow(static_cast<float>(theta), exponent));
      for (int64_t row = begin; row < end; ++row) {
        const float angle = static_cast<float>(positions[row]) * inverse_frequency;
        angles[row * head_dim + i] = static_cast<float>(cos(static_cast<double>(angle)));
        angles[row * head_dim + half + i] = static_cast<float>(sin(static_cast<double>(angle)));
      }
    }
  });
}

void CpuKernels::Rope(const AttentionShape& shape, const float* angles, int rows, float* qkv) {
  RotateRows(pool_, shape, angles, rows, 1.0F, qkv);
}

void CpuKernels::RopeBackward(const AttentionShape& shape, const float* angles, int rows, float* dqkv) {
  RotateRows(pool_, shape, angles, rows, -1.0F, dqkv);
}

}  // namespace tandem::TANDEM_ISA
