// Attention backward, recomputing the probabilities from the stored log-sum-exp (arXiv 2205.14135, algorithm 4):
//   p = exp(scale q.k - lse), dv += p dout, dp = dout.v, ds = scale p (dp - dout.out), dq += ds k, dk += ds q.
// A task is one sequence and key head: nobody else adds to its dk and dv, and the order of the sums is fixed.

#include <math.h>
#include <string.h>

#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace tandem::TANDEM_ISA {
namespace {

constexpr int kRunRows = 64;  // query rows taken together; their dout.out stand in the scratch

struct Head {
  const AttentionShape& shape;
  int kv_head;
  int rows;          // of the sequence
  const float* qkv;  // its first row, and so for the others
  const float* out;
  const float* lse;
  const float* dout;
  float* dqkv;
  float* keys;  // tiles [head_dim][kKvBlock] of the block at hand
  float* values;
  float* dots;  // dout.out of the run's queries

  int group() const { return shape.heads / shape.kv_heads; }
  int64_t stride() const { return shape.qkv_size(); }
  int64_t key_offset() const { return shape.q_size() + int64_t{kv_head} * shape.head_dim; }
  // Offsets of query q (row by row, heads of the group inside) in rows of qkv and of out.
  int64_t head_offset(int q) const { return (int64_t{kv_head} * group() + q % group()) * shape.head_dim; }
  int64_t in_qkv(int q) const { return q / group() * stride() + head_offset(q); }
  int64_t in_out(int q) const { return int64_t{q / group()} * shape.q_size() + head_offset(q); }
  float lse_of(int q) const {
    return lse[int64_t{q / group()} * shape.heads + int64_t{kv_head} * group() + q % group()];
  }
};

float Dot(const float* a, const float* b, int n) {
  F16 sum = Zero16();
  for (int i = 0; i < n; i += kLanes) {
    const int lanes = n - i < kLanes ? n - i : kLanes;
    sum = Fma(Load(a + i, lanes), Load(b + i, lanes), sum);
  }
  return SumLanes(sum);
}

// rows[j * stride + d] += sum over i < count ascending of weight[i][j] * vectors[i][d], for j < positions.
void AddOuter(int count, const float (*weight)[kKvBlock], const float* const* vectors, int positions, int head_dim,
              int64_t stride, float* rows) {
  for (int d = 0; d < head_dim; d += kLanes) {
    const int lanes = head_dim - d < kLanes ? head_dim - d : kLanes;
    F16 vector[kQueries];
#pragma GCC unroll 8
    for (int i = 0; i < kQueries; ++i) vector[i] = i < count ? Load(vectors[i] + d, lanes) : Zero16();
    for (int j = 0; j < positions; ++j) {
      float* row = rows + j * stride + d;
      F16 sum = Load(row, lanes);
#pragma GCC unroll 8
      for (int i = 0; i < kQueries; ++i) sum = Fma(Set(weight[i][j]), vector[i], sum);
      Store(row, sum, lanes);
    }
  }
}

// Up to kQueries queries from q on against the block of positions [first, first + positions).
void BlockOfQueries(const Head& h, int run_first, int q, int count, int first, int positions) {
  const int head_dim = h.shape.head_dim;
  const float scale = 1.0F / sqrtf(static_cast<float>(head_dim));
  const float* query[kQueries];
  const float* dout[kQueries];
  for (int i = 0; i < count; ++i) {
    query[i] = h.qkv + h.in_qkv(q + i);
    dout[i] = h.dout + h.in_out(q + i);
  }
  F16 score[kQueries];
  F16 dprobability[kQueries];
  DotTile(count, query, h.keys, head_dim, score);
  DotTile(count, dout, h.values, head_dim, dprobability);
  alignas(64) float probability[kQueries][kKvBlock] = {};
  alignas(64) float dscore[kQueries][kKvBlock] = {};
  const float* key_rows = h.qkv + first * h.stride() + h.key_offset();
  for (int i = 0; i < count; ++i) {
    const int seen = (q + i) / h.group() + 1 - first;
    const int valid = seen < kKvBlock ? seen : kKvBlock;
    const F16 z = Sub(Mul(score[i], Set(scale)), Set(h.lse_of(q + i)));
    const F16 p = Blend(Exp(z), Zero16(), valid);
    const F16 slope = Mul(Mul(p, Sub(dprobability[i], Set(h.dots[q + i - run_first]))), Set(scale));
    Store(probability[i], p);
    Store(dscore[i], slope);
    WeightedRows(dscore[i], valid, key_rows, h.stride(), 1.0F, head_dim, h.dqkv + h.in_qkv(q + i));
  }
  float* dkeys = h.dqkv + first * h.stride() + h.key_offset();
  AddOuter(count, dscore, query, positions, head_dim, h.stride(), dkeys);
  AddOuter(count, probability, dout, positions, head_dim, h.stride(), dkeys + h.shape.kv_size());
}

// Query rows [begin, end) of the sequence.
void BackwardRun(const Head& h, int begin, int end) {
  const int head_dim = h.shape.head_dim;
  const int first_query = begin * h.group();
  const int queries = end * h.group();
  for (int q = first_query; q < queries; ++q) {
    h.dots[q - first_query] = Dot(h.dout + h.in_out(q), h.out + h.in_out(q), head_dim);
  }
  for (int first = 0; first < end; first += kKvBlock) {
    const int positions = h.rows - first < kKvBlock ? h.rows - first : kKvBlock;
    const float* k = h.qkv + first * h.stride() + h.key_offset();
    TransposeTile(k, h.stride(), positions, head_dim, h.keys);
    TransposeTile(k + h.shape.kv_size(), h.stride(), positions, head_dim, h.values);
    for (int q = (begin > first ? begin : first) * h.group(); q < queries; q += kQueries) {
      BlockOfQueries(h, first_query, q, queries - q < kQueries ? queries - q : kQueries, first, positions);
    }
  }
}

}  // namespace

void CpuKernels::AttentionBackward(const AttentionShape& shape, const float* qkv, const float* out, const float* lse,
                                   const float* dout, const int* cu_seqlens, int sequences, float* dqkv) {
  Zero(dqkv, int64_t{cu_seqlens[sequences]} * shape.qkv_size());
  ParallelTasks(pool_, int64_t{sequences} * shape.kv_heads, [&](int64_t task, int thread) {
    const int64_t row = cu_seqlens[task / shape.kv_heads];
    const int rows = static_cast<int>(cu_seqlens[task / shape.kv_heads + 1] - row);
    float* scratch = pool_.scratch(thread);
    const int64_t tile = int64_t{shape.head_dim} * kKvBlock;
    const Head head{.shape = shape,
                    .kv_head = static_cast<int>(task % shape.kv_heads),
                    .rows = rows,
                    .qkv = qkv + row * shape.qkv_size(),
                    .out = out + row * shape.q_size(),
                    .lse = lse + row * shape.heads,
                    .dout = dout + row * shape.q_size(),
                    .dqkv = dqkv + row * shape.qkv_size(),
                    .keys = scratch,
                    .values = scratch + tile,
                    .dots = scratch + 2 * tile};
    for (int begin = 0; begin < rows; begin += kRunRows) {
      BackwardRun(head, begin, begin + kRunRows < rows ? begin + kRunRows : rows);
    }
  });
}

}  // namespace tandem::TANDEM_ISA
