#pragma once
// Copies of operand blocks in the order in which the micro-kernel of gemm.cc reads them: panel[r][0 .. width).

#include <cstdint>

#include "kernels/cpu/simd.h"

namespace tandem::TANDEM_ISA {

// out[r * 8 + i] = in[i * stride + r] for an 8 x 8 block; `out_stride` floats from one r to the next.
TANDEM_INLINE void Transpose8x8(const float* in, int64_t stride, float* out, int64_t out_stride) {
  __m256 row[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) row[i] = _mm256_loadu_ps(in + i * stride);
  __m256 pair[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    pair[i] = _mm256_unpacklo_ps(row[i], row[i + 1]);
    pair[i + 1] = _mm256_unpackhi_ps(row[i], row[i + 1]);
  }
  __m256 quad[8];
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    quad[i] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0x44);
    quad[i + 1] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0xEE);
    quad[i + 2] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0x44);
    quad[i + 3] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0xEE);
  }
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r) {
    _mm256_storeu_ps(out + r * out_stride, _mm256_permute2f128_ps(quad[r], quad[r + 4], 0x20));
    _mm256_storeu_ps(out + (r + 4) * out_stride, _mm256_permute2f128_ps(quad[r], quad[r + 4], 0x31));
  }
}

// panel[r * width + i] = in[i * stride + r] for i < count, 0 for count <= i < width.
inline void PackAcross(const float* in, int64_t stride, int64_t count, int64_t depth, int64_t width, float* panel) {
  for (int64_t i = 0; i < width; i += 8) {
    int64_t r = 0;
    if (i + 8 <= count) {
      for (; r + 8 <= depth; r += 8) Transpose8x8(in + i * stride + r, stride, panel + r * width + i, width);
    }
    const int64_t lanes = width - i < 8 ? width - i : 8;
    for (; r < depth; ++r) {
      for (int64_t lane = 0; lane < lanes; ++lane) {
        panel[r * width + i + lane] = i + lane < count ? in[(i + lane) * stride + r] : 0.0F;
      }
    }
  }
}

// panel[r * width + i] = in[r * stride + i] for i < count, 0 for count <= i < width. Asks for the panel to the right:
// its lines lie a stride apart, which no hardware prefetcher follows.
inline void PackAlong(const float* in, int64_t stride, int64_t count, int64_t depth, int64_t width, float* panel) {
  for (int64_t r = 0; r < depth; ++r) {
    for (int64_t i = 0; i < width; i += kLanes) {
      const int64_t left = count - i;
      const int valid = left <= 0 ? 0 : left < kLanes ? static_cast<int>(left) : kLanes;
      const int lanes = width - i < kLanes ? static_cast<int>(width - i) : kLanes;
      Store(panel + r * width + i, Load(in + r * stride + i, valid), lanes);
      Prefetch(in + r * stride + width + i);
    }
  }
}

}  // namespace tandem::TANDEM_ISA
