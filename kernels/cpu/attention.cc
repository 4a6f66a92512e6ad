// Attention forward. Packed training sequences and paged inference rows are two instantiations of AttendRun, which does
// the arithmetic; they differ in where a KV block's keys and values come from.

#include <math.h>

#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace tandem::TANDEM_ISA {
namespace {

constexpr float kInfinity = __builtin_inff();
constexpr int kRunRows = 64;  // most rows of a run, so that its state fits in the scratch
constexpr int kMaxGroup = 128;

// Rows of one sequence with ascending positions, and one key head.
struct Run {
  const AttentionShape& shape;
  const float* qkv;      // the run's first row
  const int* positions;  // of its rows; null: first_position, first_position + 1, ...
  int first_position;
  int rows;
  int kv_head;
  float* out;  // the run's first row, [rows, q_size]
  float* lse;  // the run's first row, [rows, heads], or null

  int group() const { return shape.heads / shape.kv_heads; }
  int position(int row) const { return positions ? positions[row] : first_position + row; }
  // Queries are numbered row by row, heads of the group inside.
  int64_t head(int query) const { return int64_t{kv_head} * group() + query % group(); }
  const float* query(int query) const {
    return qkv + int64_t{query / group()} * shape.qkv_size() + head(query) * shape.head_dim;
  }
  float* output(int query) const {
    return out + int64_t{query / group()} * shape.q_size() + head(query) * shape.head_dim;
  }
};

// Keys as a tile [head_dim][kKvBlock] and values as rows `stride` apart.
struct KvTile {
  const float* keys;
  const float* values;
  int64_t stride;
};

// Online softmax: the running maximum and sum of a query.
struct State {
  float most;
  float sum;
};

// Takes block positions [first, first + valid) of one query into its state and output. `score` is unscaled.
TANDEM_INLINE void Absorb(F16 score, float scale, int valid, const KvTile& tile, int head_dim, State& state,
                          float* out) {
  const F16 scaled = Blend(Mul(score, Set(scale)), Set(-kInfinity), valid);
  const float block_most = MaxLanes(scaled);
  const float most = state.most < block_most ? block_most : state.most;
  const float factor = ExpScalar(state.most - most);
  const F16 weight = Exp(Sub(scaled, Set(most)));
  alignas(64) float weights[kKvBlock];
  Store(weights, weight);
  state.sum = state.sum * factor + SumLanes(weight);
  state.most = most;
  WeightedRows(weights, valid, tile.values, tile.stride, factor, head_dim, out);
}

// All queries of a run against their positions 0 .. own. block(b) gives the KvTile of positions [16 b, 16 b + 16).
template <typename BlockOf>
void AttendRun(const Run& run, State* states, const BlockOf& block_of) {
  const int head_dim = run.shape.head_dim;
  const int queries = run.rows * run.group();
  const float scale = 1.0F / sqrtf(static_cast<float>(head_dim));
  for (int q = 0; q < queries; ++q) {
    states[q] = {-kInfinity, 0.0F};
    float* out = run.output(q);
    for (int d = 0; d < head_dim; ++d) out[d] = 0.0F;
  }
  int first_row = 0;
  for (int first = 0; first <= run.position(run.rows - 1); first += kKvBlock) {
    while (run.position(first_row) < first) ++first_row;
    const KvTile tile = block_of(first / kKvBlock);
    for (int q = first_row * run.group(); q < queries; q += kQueries) {
      const int count = queries - q < kQueries ? queries - q : kQueries;
      const float* query[kQueries];
      F16 score[kQueries];
      for (int i = 0; i < count; ++i) query[i] = run.query(q + i);
      DotTile(count, query, tile.keys, head_dim, score);
      for (int i = 0; i < count; ++i) {
        const int seen = run.position((q + i) / run.group()) + 1 - first;
        Absorb(score[i], scale, seen < kKvBlock ? seen : kKvBlock, tile, head_dim, states[q + i], run.output(q + i));
      }
    }
  }
  for (int q = 0; q < queries; ++q) {
    float* out = run.output(q);
    for (int d = 0; d < head_dim; ++d) out[d] /= states[q].sum;
    if (run.lse) {
      run.lse[int64_t{q / run.group()} * run.shape.heads + run.head(q)] =
          states[q].most + static_cast<float>(log(static_cast<double>(states[q].sum)));
    }
  }
}

// The sequence that row lies in: the last s with cu_seqlens[s] <= row (empty sequences hold no row).
int SequenceOfRow(const int* cu_seqlens, int sequences, int row) {
  int low = 0;
  int high = sequences;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (cu_seqlens[middle] <= row ? low : high) = middle;
  }
  return low;
}

}  // namespace

void CpuKernels::AttentionPacked(const AttentionShape& shape, const float* qkv, const int* cu_seqlens, int sequences,
                                 float* out, float* lse) {
  const int64_t chunks = (int64_t{cu_seqlens[sequences]} + kRunRows - 1) / kRunRows;
  const int64_t stride = shape.qkv_size();
  ParallelTasks(pool_, chunks * shape.kv_heads, [&](int64_t task, int thread) {
    auto* states = reinterpret_cast<State*>(pool_.scratch(thread));
    float* keys = pool_.scratch(thread) + 2 * kRunRows * kMaxGroup;
    const int kv_head = static_cast<int>(task % shape.kv_heads);
    int row = static_cast<int>(task / shape.kv_heads) * kRunRows;
    const int end = row + kRunRows < cu_seqlens[sequences] ? row + kRunRows : cu_seqlens[sequences];
    for (int s = SequenceOfRow(cu_seqlens, sequences, row); row < end; ++s) {
      const int run_end = cu_seqlens[s + 1] < end ? cu_seqlens[s + 1] : end;
      if (run_end == row) continue;
      const int begin = cu_seqlens[s];
      const Run run{shape,
                    qkv + row * stride,
                    nullptr,
                    row - begin,
                    run_end - row,
                    kv_head,
                    out + int64_t{row} * shape.q_size(),
                    lse + int64_t{row} * shape.heads};
      const float* k = qkv + begin * stride + shape.q_size() + int64_t{kv_head} * shape.head_dim;
      AttendRun(run, states, [&](int block) {
        const int first = block * kKvBlock;
        const int count = run_end - begin - first < kKvBlock ? run_end - begin - first : kKvBlock;
        TransposeTile(k + first * stride, stride, count, shape.head_dim, keys);
        return KvTile{keys, k + shape.kv_size() + first * stride, stride};
      });
      row = run_end;
    }
  });
}

void CpuKernels::AttentionPaged(const AttentionShape& shape, const float* qkv, const PagedRows& rows, const float* kv,
                                float* out) {
  // Few rows (decoding) are cut into single rows, so that all threads have some.
  const int chunk = rows.rows >= 8 * kRunRows ? kRunRows : rows.rows >= 64 ? 16 : 4;
  const int64_t chunks = (int64_t{rows.rows} + chunk - 1) / chunk;
  ParallelTasks(pool_, chunks * shape.kv_heads, [&](int64_t task, int thread) {
    auto* states = reinterpret_cast<State*>(pool_.scratch(thread));
    const int kv_head = static_cast<int>(task % shape.kv_heads);
    int row = static_cast<int>(task / shape.kv_heads) * chunk;
    const int end = row + chunk < rows.rows ? row + chunk : rows.rows;
    while (row < end) {
      int run_end = row + 1;
      while (run_end < end && rows.sequence[run_end] == rows.sequence[row]) ++run_end;
      const Run run{shape,
                    qkv + int64_t{row} * shape.qkv_size(),
                    rows.positions + row,
                    0,
                    run_end - row,
                    kv_head,
                    out + int64_t{row} * shape.q_size(),
                    nullptr};
      const int* table = rows.block_tables[rows.sequence[row]];
      const int64_t head = int64_t{kv_head} * shape.head_dim * kKvBlock;
      AttendRun(run, states, [&](int block) {
        const float* base = kv + table[block] * rows.block_stride + head;
        return KvTile{base, base + int64_t{shape.kv_size()} * kKvBlock, shape.head_dim};
      });
      row = run_end;
    }
  });
}

void CpuKernels::StoreKv(const AttentionShape& shape, const float* qkv, const PagedRows& rows, float* kv) {
  ParallelRange(pool_, rows.rows, int64_t{8} * shape.kv_size(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int position = rows.positions[row];
      const int slot = position % kKvBlock;
      float* block = kv + rows.block_tables[rows.sequence[row]][position / kKvBlock] * rows.block_stride;
      const float* k = qkv + row * shape.qkv_size() + shape.q_size();
      // Keys as [kv_head][head_dim][kKvBlock]: the element index runs over kv_head and head_dim together.
      for (int64_t e = 0; e < shape.kv_size(); ++e) block[e * kKvBlock + slot] = k[e];
      float* values = block + int64_t{shape.kv_size()} * kKvBlock + int64_t{slot} * shape.head_dim;
      for (int head = 0; head < shape.kv_heads; ++head) {
        for (int d = 0; d < shape.head_dim; ++d) {
          values[int64_t{head} * kKvBlock * shape.head_dim + d] = k[shape.kv_size() + head * shape.head_dim + d];
        }
      }
    }
  });
}

}  // namespace tandem::TANDEM_ISA
