#pragma once
// Pieces of attention over one KV block: scores of a few queries, and sums of rows weighted by their lanes. A score
// vector holds the kKvBlock positions of the block, one a lane.

#include <cstdint>

#include "kernels/cpu/simd.h"
#include "kernels/kernels.h"

namespace tandem::TANDEM_ISA {

static_assert(kKvBlock == kLanes);

// Queries that run side by side: enough independent chains to hide the latency of a multiply-add.
#if defined(__AVX512F__)
inline constexpr int kQueries = 8;
#else
inline constexpr int kQueries = 4;
#endif

// score[i][j] = sum over d ascending of query[i][d] * tile[d][j], for a tile [head_dim][kKvBlock].
template <int kCount>
void DotTileOf(const float* const* query, const float* tile, int head_dim, F16* score) {
  F16 sum[kCount];
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) sum[i] = Zero16();
  for (int d = 0; d < head_dim; ++d) {
    const F16 column = Load(tile + int64_t{d} * kKvBlock);
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) sum[i] = Fma(Set(query[i][d]), column, sum[i]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) score[i] = sum[i];
}

inline void DotTile(int count, const float* const* query, const float* tile, int head_dim, F16* score) {
  switch (count) {
    case 1:
      return DotTileOf<1>(query, tile, head_dim, score);
    case 2:
      return DotTileOf<2>(query, tile, head_dim, score);
    case 3:
      return DotTileOf<3>(query, tile, head_dim, score);
#if defined(__AVX512F__)
    case 4:
      return DotTileOf<4>(query, tile, head_dim, score);
    case 5:
      return DotTileOf<5>(query, tile, head_dim, score);
    case 6:
      return DotTileOf<6>(query, tile, head_dim, score);
    case 7:
      return DotTileOf<7>(query, tile, head_dim, score);
#endif
    default:
      return DotTileOf<kQueries>(query, tile, head_dim, score);
  }
}

// out[d ..] = out * factor + sum over j < count ascending of weight[j] * rows[j * stride + d ..], kVectors vectors
// wide.
template <int kVectors>
TANDEM_INLINE void WeightedRowsOf(const float* weight, int count, const float* rows, int64_t stride, float factor,
                                  int last, float* out) {
  F16 sum[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    sum[v] = Mul(Load(out + v * kLanes, v + 1 < kVectors ? kLanes : last), Set(factor));
  }
  for (int j = 0; j < count; ++j) {
    const F16 w = Set(weight[j]);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      sum[v] = Fma(w, Load(rows + j * stride + v * kLanes, v + 1 < kVectors ? kLanes : last), sum[v]);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) Store(out + v * kLanes, sum[v], v + 1 < kVectors ? kLanes : last);
}

inline void WeightedRows(const float* weight, int count, const float* rows, int64_t stride, float factor, int head_dim,
                         float* out) {
  int d = 0;
  for (; d + 4 * kLanes <= head_dim; d += 4 * kLanes) {
    WeightedRowsOf<4>(weight, count, rows + d, stride, factor, kLanes, out + d);
  }
  for (; d + 2 * kLanes <= head_dim; d += 2 * kLanes) {
    WeightedRowsOf<2>(weight, count, rows + d, stride, factor, kLanes, out + d);
  }
  for (; d < head_dim; d += kLanes) {
    const int lanes = head_dim - d < kLanes ? head_dim - d : kLanes;
    WeightedRowsOf<1>(weight, count, rows + d, stride, factor, lanes, out + d);
  }
}

// tile[d][j] = rows[j * stride + d] for j < count, 0 for the other lanes.
inline void TransposeTile(const float* rows, int64_t stride, int count, int head_dim, float* tile) {
  for (int d = 0; d < head_dim; ++d) {
    float* column = tile + int64_t{d} * kKvBlock;
    for (int j = 0; j < count; ++j) column[j] = rows[j * stride + d];
    for (int j = count; j < kKvBlock; ++j) column[j] = 0.0F;
  }
}

}  // namespace tandem::TANDEM_ISA
