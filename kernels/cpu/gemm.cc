#include "kernels/cpu/gemm.h"

#include "kernels/cpu/pack.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace tandem::TANDEM_ISA {
namespace {

// Rows and vectors of the micro-kernel: as many accumulators as the registers hold beside the operands.
#if defined(__AVX512F__)
constexpr int kRows = 8, kVectors = 3;
#else
constexpr int kRows = 6, kVectors = 1;
#endif
constexpr int kWidth = kVectors * kLanes;
constexpr int64_t kReduceBlock = 256;
constexpr int64_t kTileRows = 480;  // rows of a packed block of a, in the second-level cache; a multiple of kRows
static_assert(kTileRows % kRows == 0);
static_assert((kTileRows + kWidth) * kReduceBlock + 64 <= static_cast<int64_t>(ThreadPool::kScratchFloats));

// One micro-tile of c. start: what the chains begin with (null: 0); add: added at the end (null: nothing). All three
// have rows c_stride apart and `last` valid lanes in the last vector.
struct MicroTile {
  int64_t depth;
  const float* a;  // [depth][kRows]
  const float* b;  // [depth][kWidth]
  const float* start;
  const float* add;
  float* c;
  int64_t c_stride;
  int last;
};

template <int kTileRows, int kTileVectors>
void MicroKernel(const MicroTile& tile) {
  F16 sum[kTileRows][kTileVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v) {
      const int lanes = v + 1 < kTileVectors ? kLanes : tile.last;
      sum[i][v] = tile.start ? Load(tile.start + i * tile.c_stride + v * kLanes, lanes) : Zero16();
    }
  }
  const float* a = tile.a;
  const float* b = tile.b;
  for (int64_t r = 0; r < tile.depth; ++r, a += kRows, b += kWidth) {
    F16 bv[kTileVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v) bv[v] = Load(b + v * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kTileRows; ++i) {
      const F16 av = Set(a[i]);
#pragma GCC unroll 4
      for (int v = 0; v < kTileVectors; ++v) sum[i][v] = Fma(av, bv[v], sum[i][v]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v) {
      const int lanes = v + 1 < kTileVectors ? kLanes : tile.last;
      const int64_t at = i * tile.c_stride + v * kLanes;
      if (tile.add) sum[i][v] = Add(sum[i][v], Load(tile.add + at, lanes));
      Store(tile.c + at, sum[i][v], lanes);
    }
  }
}

template <int kTileRows>
void MicroKernelOfWidth(int vectors, const MicroTile& tile) {
#if defined(__AVX512F__)
  if (vectors == 3) return MicroKernel<kTileRows, 3>(tile);
  if (vectors == 2) return MicroKernel<kTileRows, 2>(tile);
#endif
  static_cast<void>(vectors);
  MicroKernel<kTileRows, 1>(tile);
}

void MicroKernelOfSize(int64_t rows, int vectors, const MicroTile& tile) {
  switch (rows) {
    case 1:
      return MicroKernelOfWidth<1>(vectors, tile);
    case 2:
      return MicroKernelOfWidth<2>(vectors, tile);
    case 3:
      return MicroKernelOfWidth<3>(vectors, tile);
    case 4:
      return MicroKernelOfWidth<4>(vectors, tile);
    case 5:
      return MicroKernelOfWidth<5>(vectors, tile);
#if defined(__AVX512F__)
    case 6:
      return MicroKernelOfWidth<6>(vectors, tile);
    case 7:
      return MicroKernelOfWidth<7>(vectors, tile);
#endif
    default:
      return MicroKernelOfWidth<kRows>(vectors, tile);
  }
}

int64_t Least(int64_t a, int64_t b) {
  return a < b ? a : b;
}
int64_t RoundUp(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

// Packs operand columns [at, at + count) of reduction steps [r, r + depth).
void Pack(const GemmOperand& operand, int64_t at, int64_t count, int64_t r, int64_t depth, int64_t width,
          float* panel) {
  if (operand.across) {
    PackAcross(operand.data + at * operand.stride + r, operand.stride, count, depth, width, panel);
  } else {
    PackAlong(operand.data + r * operand.stride + at, operand.stride, count, depth, width, panel);
  }
}

// All micro-tiles of rows [i0, i1) and columns [j, j + columns) (one panel of b) for one reduction block.
void PanelOfTiles(const GemmProblem& p, int64_t i0, int64_t i1, int64_t j, int64_t columns, int64_t r, int64_t depth,
                  const float* a, const float* b) {
  const bool first = r == 0;
  const bool last = r + depth == p.r;
  const bool chain = p.sum == GemmSum::kChain;
  const int vectors = static_cast<int>((columns + kLanes - 1) / kLanes);
  for (int64_t i = i0; i < i1; i += kRows) {
    const int64_t at = i * p.c_stride + j;
    float* c = p.c + at;
    const float* start = chain && !first ? c : nullptr;
    const float* add = nullptr;
    if (chain && last && p.residual) add = p.residual + at;
    if (!chain && !(first && p.sum == GemmSum::kBlocks)) add = c;
    MicroKernelOfSize(Least(kRows, i1 - i), vectors,
                      {.depth = depth,
                       .a = a + (i - i0) * depth,
                       .b = b,
                       .start = start,
                       .add = add,
                       .c = c,
                       .c_stride = p.c_stride,
                       .last = static_cast<int>(columns - int64_t{vectors - 1} * kLanes)});
  }
}

void Tile(const GemmProblem& p, int64_t i0, int64_t i1, int64_t j0, int64_t j1, float* scratch) {
  float* b_panel = scratch;
  float* a_block = scratch + kReduceBlock * kWidth + 16;
  for (int64_t r = 0; r < p.r; r += kReduceBlock) {
    const int64_t depth = Least(kReduceBlock, p.r - r);
    for (int64_t i = i0; i < i1; i += kRows) {
      Pack(p.a, i, Least(kRows, i1 - i), r, depth, kRows, a_block + (i - i0) * depth);
    }
    for (int64_t j = j0; j < j1; j += kWidth) {
      const int64_t columns = Least(kWidth, j1 - j);
      Pack(p.b, j, columns, r, depth, kWidth, b_panel);
      PanelOfTiles(p, i0, i1, j, columns, r, depth, a_block, b_panel);
    }
  }
}

}  // namespace

void Gemm(ThreadPool& pool, const GemmProblem& p) {
  // Tiles are cut until each thread has about four; their size has no influence on the bits.
  int64_t tile_i = Least(kTileRows, RoundUp(p.i, kRows));
  int64_t tile_j = RoundUp(p.j, kWidth);
  const auto count = [&] { return ((p.i + tile_i - 1) / tile_i) * ((p.j + tile_j - 1) / tile_j); };
  const int64_t wanted = pool.threads() > 1 ? int64_t{4} * pool.threads() : 1;
  while (count() < wanted && (tile_i > 96 || tile_j > 2 * 48)) {
    if (tile_i >= tile_j || tile_j <= 2 * 48) {
      tile_i = RoundUp(tile_i / 2, kRows);
    } else {
      tile_j = RoundUp(tile_j / 2, kWidth);
    }
  }
  const int64_t tiles_j = (p.j + tile_j - 1) / tile_j;
  ParallelTasks(pool, count(), [&](int64_t task, int thread) {
    const int64_t i0 = task / tiles_j * tile_i;
    const int64_t j0 = task % tiles_j * tile_j;
    Tile(p, i0, Least(i0 + tile_i, p.i), j0, Least(j0 + tile_j, p.j), pool.scratch(thread));
  });
}

}  // namespace tandem::TANDEM_ISA
