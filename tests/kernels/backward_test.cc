// Every backward against central differences of its forward, at sizes that divide by nothing.

#include <gtest/gtest.h>

#include "tests/kernels/finite_difference.h"
#include "tests/kernels/random_values.h"

namespace tandem::testing {
namespace {

class BackwardTest : public ::testing::Test {
 protected:
  std::unique_ptr<Kernels> kernels_ = MakeCpuKernels(2);
};

TEST_F(BackwardTest, Embedding) {
  const int rows = 13, hidden = 19, vocab = 7;  // more rows than tokens: columns are added to more than once
  std::vector<float> table = RandomValues(hidden * vocab, 1);
  const std::vector<int> tokens = RandomIndices(rows, vocab, 2);
  const std::vector<float> dout = RandomValues(rows * hidden, 3);
  std::vector<float> dtable(table.size()), out(dout.size());
  kernels_->EmbeddingBackward(dout.data(), tokens.data(), rows, hidden, vocab, dtable.data());
  ExpectFiniteDifferences("table", table, dtable, [&] {
    kernels_->Embedding(table.data(), tokens.data(), rows, hidden, vocab, out.data());
    return WeightedSum(dout, out);
  });
}

TEST_F(BackwardTest, RmsNorm) {
  for (const int n : {5, 16, 72, 88}) {
    const int rows = 9;
    std::vector<float> x = RandomValues(rows * n, 1), weight = RandomValues(n, 2);
    const std::vector<float> dout = RandomValues(rows * n, 3);
    std::vector<float> dx(x.size()), dweight(n), out(x.size());
    kernels_->RmsNormBackward(x.data(), weight.data(), dout.data(), rows, n, 1e-5F, dx.data(), dweight.data());
    const auto loss = [&] {
      kernels_->RmsNorm(x.data(), weight.data(), rows, n, 1e-5F, out.data());
      return WeightedSum(dout, out);
    };
    ExpectFiniteDifferences("x", x, dx, loss);
    ExpectFiniteDifferences("weight", weight, dweight, loss);
  }
}

TEST_F(BackwardTest, Linear) {
  for (const auto& [rows, k, n] : {std::tuple{3, 17, 5}, {21, 40, 33}, {50, 9, 97}}) {
    const LinearShape shape{rows, k, n, n};
    std::vector<float> x = RandomValues(rows * k, 1), w = RandomValues(k * n, 2);
    const std::vector<float> dout = RandomValues(rows * n, 3);
    std::vector<float> dx(x.size(), 9.0F), dw(w.size()), out(dout.size());
    kernels_->LinearBackwardInput(shape, dout.data(), w.data(), false, dx.data());
    kernels_->LinearBackwardWeight(shape, x.data(), dout.data(), dw.data());
    const auto loss = [&] {
      kernels_->Linear(shape, x.data(), w.data(), nullptr, out.data());
      return WeightedSum(dout, out);
    };
    ExpectFiniteDifferences("x", x, dx, loss, 3);
    ExpectFiniteDifferences("w", w, dw, loss, 7);
  }
}

TEST_F(BackwardTest, Rope) {
  const AttentionShape shape{3, 1, 24};
  const int rows = 6;
  const std::vector<int> positions = RandomIndices(rows, 300, 1);
  std::vector<float> angles(rows * shape.head_dim), x = RandomValues(rows * shape.qkv_size(), 2);
  const std::vector<float> dout = RandomValues(static_cast<int64_t>(x.size()), 3);
  kernels_->RopeAngles(positions.data(), rows, shape.head_dim, 10000.0, angles.data());
  std::vector<float> dx = dout;
  kernels_->RopeBackward(shape, angles.data(), rows, dx.data());
  ExpectFiniteDifferences("qkv", x, dx, [&] {
    std::vector<float> out = x;
    kernels_->Rope(shape, angles.data(), rows, out.data());
    return WeightedSum(dout, out);
  });
}

TEST_F(BackwardTest, Attention) {
  // Groups of one, two and three query heads; sequences shorter and longer than a KV block and a run of rows.
  for (const AttentionShape shape : {AttentionShape{2, 2, 8}, {4, 2, 10}, {3, 1, 40}, {2, 1, 128}}) {
    const std::vector<int> cu_seqlens = {0, 1, 15, 15, 31, 68, 139};
    const int sequences = static_cast<int>(cu_seqlens.size()) - 1;
    const int rows = cu_seqlens.back();
    std::vector<float> qkv = RandomValues(int64_t{rows} * shape.qkv_size(), 1);
    const std::vector<float> dout = RandomValues(int64_t{rows} * shape.q_size(), 2);
    std::vector<float> out(dout.size()), lse(rows * shape.heads), dqkv(qkv.size(), 9.0F);
    const auto loss = [&] {
      kernels_->AttentionPacked(shape, qkv.data(), cu_seqlens.data(), sequences, out.data(), lse.data());
      return WeightedSum(dout, out);
    };
    loss();
    kernels_->AttentionBackward(shape, qkv.data(), out.data(), lse.data(), dout.data(), cu_seqlens.data(), sequences,
                                dqkv.data());
    ExpectFiniteDifferences("qkv", qkv, dqkv, loss, 31);
  }
}

TEST_F(BackwardTest, SwiGlu) {
  const int rows = 7, n = 21;
  std::vector<float> x = RandomValues(rows * 2 * n, 1, 2.0F);
  const std::vector<float> dout = RandomValues(rows * n, 2);
  std::vector<float> dx(x.size(), 9.0F), out(dout.size());
  kernels_->SwiGluBackward(x.data(), dout.data(), rows, n, dx.data());
  ExpectFiniteDifferences("gate_up", x, dx, [&] {
    kernels_->SwiGlu(x.data(), rows, n, out.data());
    return WeightedSum(dout, out);
  });
}

TEST_F(BackwardTest, LogProb) {
  const int rows = 5, vocab = 83, cut = 48;
  std::vector<float> logits = RandomValues(rows * vocab, 1, 2.0F);
  const std::vector<int> targets = RandomIndices(rows, vocab, 2);
  const std::vector<float> weight = RandomValues(rows, 3);
  std::vector<float> logprob(rows), lse(rows);
  for (const float temperature : {1.0F, 0.7F, 0.0F}) {
    kernels_->LogProb(logits.data(), rows, vocab, temperature, targets.data(), logprob.data(), nullptr, lse.data());
    // In two slices of the vocabulary, as the training backward does it.
    std::vector<float> gradient(logits.size());
    for (const auto& [first, n] : {std::pair{0, cut}, {cut, vocab - cut}}) {
      std::vector<float> slice(rows * n);
      for (int i = 0; i < rows; ++i) std::copy_n(&logits[i * vocab + first], n, &slice[i * n]);
      kernels_->LogProbBackward(rows, first, n, temperature, targets.data(), lse.data(), weight.data(), slice.data());
      for (int i = 0; i < rows; ++i) std::copy_n(&slice[i * n], n, &gradient[i * vocab + first]);
    }
    ExpectFiniteDifferences("logits", logits, gradient, [&] {
      kernels_->LogProb(logits.data(), rows, vocab, temperature, targets.data(), logprob.data(), nullptr, nullptr);
      return WeightedSum(weight, logprob);
    });
  }
}

}  // namespace
}  // namespace tandem::testing
