#pragma once
// The CPU twin, compiled once for each vector instruction set (namespace TANDEM_ISA: avx2 or avx512). Each operation is
// defined in the file of its name. Created by MakeCpuKernels only.

#include "kernels/cpu/thread_pool.h"
#include "kernels/kernels.h"

namespace tandem::TANDEM_ISA {

class CpuKernels final : public Kernels {
 public:
  // Owns the pool.
  explicit CpuKernels(ThreadPool* pool);
  ~CpuKernels() override;
  CpuKernels(const CpuKernels&) = delete;
  CpuKernels& operator=(const CpuKernels&) = delete;

  void Zero(float* x, int64_t n) override;
  void Scale(float* x, int64_t n, float factor) override;
  void GatherRows(const float* x, const int* rows, int count, int n, float* out) override;
  void ScatterRows(const float* x, const int* rows, int count, int n, float* out) override;
  void Embedding(const float* table, const int* tokens, int rows, int hidden, int vocab, float* out) override;
  void EmbeddingBackward(const float* dout, const int* tokens, int rows, int hidden, int vocab, float* dtable) override;
  void RmsNorm(const float* x, const float* weight, int rows, int n, float epsilon, float* out) override;
  void RmsNormBackward(const float* x, const float* weight, const float* dout, int rows, int n, float epsilon,
                       float* dx, float* dweight) override;
  void Linear(const LinearShape& shape, const float* x, const float* w, const float* residual, float* out) override;
  void LinearBackwardInput(const LinearShape& shape, const float* dout, const float* w, bool accumulate,
                           float* dx) override;
  void LinearBackwardWeight(const LinearShape& shape, const float* x, const float* dout, float* dw) override;
  void RopeAngles(const int* positions, int rows, int head_dim, double theta, float* angles) override;
  void Rope(const AttentionShape& shape, const float* angles, int rows, float* qkv) override;
  void RopeBackward(const AttentionShape& shape, const float* angles, int rows, float* dqkv) override;
  void AttentionPacked(const AttentionShape& shape, const float* qkv, const int* cu_seqlens, int sequences, float* out,
                       float* lse) override;
  void AttentionBackward(const AttentionShape& shape, const float* qkv, const float* out, const float* lse,
                         const float* dout, const int* cu_seqlens, int sequences, float* dqkv) override;
  void StoreKv(const AttentionShape& shape, const float* qkv, const PagedRows& rows, float* kv) override;
  void AttentionPaged(const AttentionShape& shape, const float* qkv, const PagedRows& rows, const float* kv,
                      float* out) override;
  void SwiGlu(const float* gate_up, int rows, int n, float* out) override;
  void SwiGluBackward(const float* gate_up, const float* dout, int rows, int n, float* dgate_up) override;
  void LogProb(const float* logits, int rows, int vocab, float temperature, const int* targets, float* logprob,
               float* entropy, float* lse) override;
  void LogProbBackward(int rows, int first, int n, float temperature, const int* targets, const float* lse,
                       const float* weight, float* logits) override;
  double SumOfSquares(const float* x, int64_t n) override;
  void AdamW(const AdamWOptions& options, int64_t n, const float* gradient, float* parameter, float* m,
             float* v) override;
  const char* description() const override { return description_; }

 private:
  ThreadPool& pool_;
  char description_[64];
};

}  // namespace tandem::TANDEM_ISA
