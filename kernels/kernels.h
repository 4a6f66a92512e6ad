#pragma once
// The table of contents of the maths: every operation of a Llama-family decoder, forward and backward, with its shapes.
//
// What it is: one interface with a twin per device. What it is not: it owns no tensors, allocates no buffer that grows
// with tokens or weights, and knows no model; services/transformer strings the operations together.
//
// Conventions
//   * All arrays are fp32, row-major and contiguous unless an argument says otherwise; [rows, n] means rows of n
//   values.
//   * "=" overwrites the result, "+=" adds to it. Inputs and outputs do not overlap unless "in place" is stated.
//   * Weights are [K, N] (input dimension first): y = x W.
//   * Bits: the result of a row depends on no other row, on no row count or order, and on no thread count or vector
//   width
//     (the CPU has all of that for backward too). Every forward product is one chain of fused multiply-adds over k.
//   * Indices (tokens, positions, block ids) are in range: the caller has checked them.
// Threads: one call at a time for each object.

#include <cstddef>
#include <cstdint>
#include <memory>

namespace tandem {

// Positions in a block of cached keys and values, and the split at which every attention is computed.
inline constexpr int kKvBlock = 16;

// y[rows, n] of a product with w[k, n], whose rows lie `stride` elements apart (n for a whole matrix, more for a slice
// of its columns).
struct LinearShape {
  int rows = 0, k = 0, n = 0;
  int64_t stride = 0;
};

// Query rows are [rows, (heads + 2 kv_heads) * head_dim]: q, then k, then v. Query head h reads key head
// h / (heads / kv_heads). Scores are multiplied by head_dim^-1/2.
struct AttentionShape {
  int heads = 0, kv_heads = 0, head_dim = 0;

  int q_size() const { return heads * head_dim; }
  int kv_size() const { return kv_heads * head_dim; }
  int qkv_size() const { return q_size() + 2 * kv_size(); }
  // Elements of one layer's part of a KV block: [kv_head][k: head_dim][kKvBlock], then [kv_head][v:
  // kKvBlock][head_dim].
  int64_t kv_block_elements() const { return int64_t{2} * kv_size() * kKvBlock; }
};

// Rows of an inference step and where their sequences' keys and values lie. Row i stands at positions[i] of sequence
// sequence[i]; position p of sequence s is slot p % kKvBlock of the block at
// kv + block_tables[s][p / kKvBlock] * block_stride (elements). `kv` points at the layer's part of block 0.
struct PagedRows {
  int rows = 0;
  const int* positions = nullptr;
  const int* sequence = nullptr;
  const int* const* block_tables = nullptr;
  int64_t block_stride = 0;
};

struct AdamWOptions {
  double learning_rate = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0;  // 0 for parameters that do not decay
  double clip_scale = 1;    // multiplies the gradient first: min(1, max_norm / (norm + 1e-6))
  int64_t step = 1;         // 1 for the first update
};

class Kernels {
 public:
  virtual ~Kernels();

  // ---- memory
  virtual void Zero(float* x, int64_t n) = 0;                 // x = 0
  virtual void Scale(float* x, int64_t n, float factor) = 0;  // x = x * factor
  // out[i, :] = x[rows[i], :] for i < count; x has rows of n.
  virtual void GatherRows(const float* x, const int* rows, int count, int n, float* out) = 0;
  // out[rows[i], :] = x[i, :]; other rows of out stay. rows are distinct.
  virtual void ScatterRows(const float* x, const int* rows, int count, int n, float* out) = 0;

  // ---- embedding, stored as the head is: table [hidden, vocab]
  // out[i, h] = table[h, tokens[i]]
  virtual void Embedding(const float* table, const int* tokens, int rows, int hidden, int vocab, float* out) = 0;
  // dtable[h, tokens[i]] += dout[i, h]
  virtual void EmbeddingBackward(const float* dout, const int* tokens, int rows, int hidden, int vocab,
                                 float* dtable) = 0;

  // ---- RMS norm (arXiv 1910.07467): out = x * rsqrt(mean(x^2) + epsilon) * weight; x [rows, n], weight [n]
  virtual void RmsNorm(const float* x, const float* weight, int rows, int n, float epsilon, float* out) = 0;
  // dx [rows, n] +=, dweight [n] +=
  virtual void RmsNormBackward(const float* x, const float* weight, const float* dout, int rows, int n, float epsilon,
                               float* dx, float* dweight) = 0;

  // ---- linear
  // out [rows, n] = x [rows, k] w [k, n] (+ residual [rows, n], unless null). out may not be the residual.
  virtual void Linear(const LinearShape& shape, const float* x, const float* w, const float* residual, float* out) = 0;
  // dx [rows, k] = dout [rows, n] w^T, or += with `accumulate`.
  virtual void LinearBackwardInput(const LinearShape& shape, const float* dout, const float* w, bool accumulate,
                                   float* dx) = 0;
  // dw [k, n] (rows `stride` apart) += x^T [k, rows] dout [rows, n]
  virtual void LinearBackwardWeight(const LinearShape& shape, const float* x, const float* dout, float* dw) = 0;

  // ---- rotary positions as transformers applies them to Llama (the halves of a head rotate: x1 cos - x2 sin,
  // x2 cos + x1 sin); angles are fp32 products of a position and fp32 inverse frequencies theta^(-2i / head_dim)
  // angles [rows, head_dim]: cos of head_dim / 2 angles, then sin.
  virtual void RopeAngles(const int* positions, int rows, int head_dim, double theta, float* angles) = 0;
  // In place on the q and k heads of qkv rows.
  virtual void Rope(const AttentionShape& shape, const float* angles, int rows, float* qkv) = 0;
  // In place on dq and dk: the transposed rotation.
  virtual void RopeBackward(const AttentionShape& shape, const float* angles, int rows, float* dqkv) = 0;

  // ---- causal attention, online softmax in splits of kKvBlock positions (arXiv 2205.14135)
  // Packed sequences: sequence s is rows cu_seqlens[s] .. cu_seqlens[s + 1) of qkv; positions count from 0 in each.
  // out [T, q_size] =, lse [T, heads] = log sum exp of a row's scores.
  virtual void AttentionPacked(const AttentionShape& shape, const float* qkv, const int* cu_seqlens, int sequences,
                               float* out, float* lse) = 0;
  // dqkv [T, qkv_size] = from dout [T, q_size] and what the forward gave.
  virtual void AttentionBackward(const AttentionShape& shape, const float* qkv, const float* out, const float* lse,
                                 const float* dout, const int* cu_seqlens, int sequences, float* dqkv) = 0;
  // Writes the keys and values of qkv rows to their slots of the KV blocks.
  virtual void StoreKv(const AttentionShape& shape, const float* qkv, const PagedRows& rows, float* kv) = 0;
  // out [rows, q_size] = attention of each row to positions 0 .. its own, all of which StoreKv has written. Same bits
  // as AttentionPacked.
  virtual void AttentionPaged(const AttentionShape& shape, const float* qkv, const PagedRows& rows, const float* kv,
                              float* out) = 0;

  // ---- SwiGLU (arXiv 2002.05202): gate_up [rows, 2n] holds gate, then up; out [rows, n] = silu(gate) * up
  virtual void SwiGlu(const float* gate_up, int rows, int n, float* out) = 0;
  // dgate_up [rows, 2n] = from dout [rows, n]
  virtual void SwiGluBackward(const float* gate_up, const float* dout, int rows, int n, float* dgate_up) = 0;

  // ---- log-probabilities: z = logits / temperature (a temperature of 0 counts as 1), p = softmax(z) over the
  // vocabulary logprob[i] = log p[targets[i]]; entropy[i] = -sum p log p in nats; lse[i] = log sum exp z. logits [rows,
  // vocab]; entropy and lse may be null. The sum over the vocabulary has one fixed order.
  virtual void LogProb(const float* logits, int rows, int vocab, float temperature, const int* targets, float* logprob,
                       float* entropy, float* lse) = 0;
  // In place on logits [rows, n], columns first .. first + n of the vocabulary, for a loss sum_i weight[i] *
  // logprob[i]: = weight[i] / temperature * ((first + j == targets[i]) - p[i, j]).
  virtual void LogProbBackward(int rows, int first, int n, float temperature, const int* targets, const float* lse,
                               const float* weight, float* logits) = 0;

  // ---- optimizer
  // Sum of x^2; products and sums of few values in fp32, the rest in fp64.
  virtual double SumOfSquares(const float* x, int64_t n) = 0;
  // AdamW as torch.optim.AdamW has it (arXiv 1711.05101): parameter, m and v are updated in place; epsilon stands
  // outside the root and after bias correction.
  virtual void AdamW(const AdamWOptions& options, int64_t n, const float* gradient, float* parameter, float* m,
                     float* v) = 0;

  // For logs: "cpu avx512, 2 threads".
  virtual const char* description() const = 0;
};

// Which vector instructions the CPU twin uses; kBest takes AVX-512 (F, DQ, BW, VL) where there is one.
enum class CpuVectors { kBest, kAvx2, kAvx512 };

// The CPU twin with `threads` threads (0: one for each processor that this process may use). Ends the process with one
// clear line and exit code 2 if the processor has not at least AVX2 and FMA, or not the vectors asked for.
std::unique_ptr<Kernels> MakeCpuKernels(int threads, CpuVectors vectors = CpuVectors::kBest);
bool CpuHasAvx512();

}  // namespace tandem
