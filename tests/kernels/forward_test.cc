// Every forward against the formula in fp64, at sizes that divide by nothing.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/kernels/random_values.h"

namespace tandem::testing {
namespace {

constexpr double kRelative = 3e-6;

void ExpectClose(const std::vector<float>& got, const std::vector<double>& expected, double tolerance = kRelative) {
  ASSERT_EQ(got.size(), expected.size());
  double largest = 1e-30;
  for (const double e : expected) largest = std::max(largest, std::abs(e));
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], tolerance * largest) << "element " << i;
}

class ForwardTest : public ::testing::Test {
 protected:
  std::unique_ptr<Kernels> kernels_ = MakeCpuKernels(2);
};

TEST_F(ForwardTest, RowsAreGatheredScatteredScaledAndZeroed) {
  const std::vector<float> x = RandomValues(6 * 5, 1);
  const std::vector<int> rows = {4, 0, 2};
  std::vector<float> some(3 * 5), back(6 * 5, 7.0F);
  kernels_->GatherRows(x.data(), rows.data(), 3, 5, some.data());
  kernels_->Scale(some.data(), 15, 2.0F);
  kernels_->ScatterRows(some.data(), rows.data(), 3, 5, back.data());
  for (int j = 0; j < 5; ++j) {
    EXPECT_EQ(back[4 * 5 + j], 2 * x[4 * 5 + j]);
    EXPECT_EQ(back[0 * 5 + j], 2 * x[0 * 5 + j]);
    EXPECT_EQ(back[1 * 5 + j], 7.0F);
  }
  kernels_->Zero(back.data() + 5, 5);
  EXPECT_EQ(back[9], 0.0F);
  EXPECT_EQ(back[10], 2 * x[10]);
}

TEST_F(ForwardTest, EmbeddingTakesColumns) {
  const std::vector<float> table = RandomValues(17 * 9, 1);
  const std::vector<int> tokens = {8, 0, 8, 3};
  std::vector<float> out(4 * 17);
  kernels_->Embedding(table.data(), tokens.data(), 4, 17, 9, out.data());
  for (int i = 0; i < 4; ++i) {
    for (int h = 0; h < 17; ++h) EXPECT_EQ(out[i * 17 + h], table[h * 9 + tokens[i]]);
  }
}

TEST_F(ForwardTest, RmsNorm) {
  const int rows = 5, n = 72;
  const std::vector<float> x = RandomValues(rows * n, 1), weight = RandomValues(n, 2);
  std::vector<float> out(x.size());
  std::vector<double> expected(x.size());
  for (int i = 0; i < rows; ++i) {
    double squares = 0;
    for (int j = 0; j < n; ++j) squares += std::pow(static_cast<double>(x[i * n + j]), 2);
    for (int j = 0; j < n; ++j) expected[i * n + j] = x[i * n + j] / std::sqrt(squares / n + 0.01) * weight[j];
  }
  kernels_->RmsNorm(x.data(), weight.data(), rows, n, 0.01F, out.data());
  ExpectClose(out, expected);
}

TEST_F(ForwardTest, LinearWithResidualAndOnASliceOfTheColumns) {
  for (const int rows : {1, 3, 16, 17, 70}) {
    for (const int k : {1, 9, 300}) {
      const int n = 53, stride = 61;
      const std::vector<float> x = RandomValues(rows * k, 1), w = RandomValues(k * stride, 2),
                               residual = RandomValues(rows * n, 3);
      std::vector<float> out(rows * n);
      std::vector<double> expected(out.size());
      for (int i = 0; i < rows; ++i) {
        for (int j = 0; j < n; ++j) {
          double sum = residual[i * n + j];
          for (int r = 0; r < k; ++r) sum += static_cast<double>(x[i * k + r]) * w[r * stride + 4 + j];
          expected[i * n + j] = sum;
        }
      }
      kernels_->Linear({rows, k, n, stride}, x.data(), w.data() + 4, residual.data(), out.data());
      ExpectClose(out, expected);
    }
  }
}

TEST_F(ForwardTest, RopeRotatesHalvesOfQueriesAndKeysOnly) {
  const AttentionShape shape{2, 1, 24};
  const int half = 12;
  const std::vector<int> positions = {0, 1, 299};
  std::vector<float> angles(3 * 24), x = RandomValues(3 * shape.qkv_size(), 1);
  std::vector<double> expected(x.begin(), x.end());
  for (int row = 0; row < 3; ++row) {
    for (int head = 0; head < 3; ++head) {
      for (int i = 0; i < half; ++i) {
        const double angle = positions[row] * std::pow(1e5, -2.0 * i / 24);
        double* at = &expected[row * shape.qkv_size() + head * 24 + i];
        const double x1 = at[0], x2 = at[half];
        at[0] = x1 * std::cos(angle) - x2 * std::sin(angle);
        at[half] = x2 * std::cos(angle) + x1 * std::sin(angle);
      }
    }
  }
  kernels_->RopeAngles(positions.data(), 3, 24, 1e5, angles.data());
  kernels_->Rope(shape, angles.data(), 3, x.data());
  ExpectClose(x, expected, 3e-5);  // fp32 angles up to 299
}

TEST_F(ForwardTest, PackedAttentionSeesItsOwnSequenceUpToItself) {
  const AttentionShape shape{6, 2, 20};
  const std::vector<int> cu_seqlens = {0, 3, 20, 90};
  const int rows = 90, stride = shape.qkv_size();
  const std::vector<float> qkv = RandomValues(rows * stride, 1);
  std::vector<float> out(rows * shape.q_size()), lse(rows * shape.heads);
  std::vector<double> expected(out.size()), expected_lse(lse.size());
  for (int s = 0; s < 3; ++s) {
    for (int row = cu_seqlens[s]; row < cu_seqlens[s + 1]; ++row) {
      for (int head = 0; head < shape.heads; ++head) {
        const float* q = &qkv[row * stride + head * 20];
        double sum = 0;
        for (int p = cu_seqlens[s]; p <= row; ++p) {
          const float* k = &qkv[p * stride + shape.q_size() + head / 3 * 20];
          double score = 0;
          for (int d = 0; d < 20; ++d) score += static_cast<double>(q[d]) * k[d];
          const double weight = std::exp(score / std::sqrt(20.0));
          sum += weight;
          for (int d = 0; d < 20; ++d) {
            expected[row * shape.q_size() + head * 20 + d] += weight * k[shape.kv_size() + d];
          }
        }
        for (int d = 0; d < 20; ++d) expected[row * shape.q_size() + head * 20 + d] /= sum;
        expected_lse[row * shape.heads + head] = std::log(sum);
      }
    }
  }
  kernels_->AttentionPacked(shape, qkv.data(), cu_seqlens.data(), 3, out.data(), lse.data());
  ExpectClose(out, expected);
  ExpectClose(lse, expected_lse);
}

TEST_F(ForwardTest, SwiGluAtLargeValuesToo) {
  const int n = 21;
  std::vector<float> x = RandomValues(2 * n, 1, 3.0F);
  x[0] = 200.0F;
  x[1] = -200.0F;
  std::vector<float> out(n);
  std::vector<double> expected(n);
  for (int j = 0; j < n; ++j) expected[j] = x[j] / (1 + std::exp(-static_cast<double>(x[j]))) * x[n + j];
  kernels_->SwiGlu(x.data(), 1, n, out.data());
  ExpectClose(out, expected);
}

TEST_F(ForwardTest, LogProbAndEntropyOfWideAndFlatRows) {
  for (const int vocab : {1, 15, 16, 83, 49152}) {
    for (const float spread : {0.0F, 1.0F, 40.0F}) {
      const std::vector<float> logits = RandomValues(2 * vocab, 1, spread);
      const std::vector<int> targets = RandomIndices(2, vocab, 2);
      std::vector<float> logprob(2), entropy(2), lse(2);
      kernels_->LogProb(logits.data(), 2, vocab, 0.7F, targets.data(), logprob.data(), entropy.data(), lse.data());
      for (int i = 0; i < 2; ++i) {
        const float* row = &logits[i * vocab];
        double most = -1e30, sum = 0, moment = 0;
        for (int j = 0; j < vocab; ++j) most = std::max(most, row[j] / 0.7);
        for (int j = 0; j < vocab; ++j) sum += std::exp(row[j] / 0.7 - most);
        for (int j = 0; j < vocab; ++j) moment += std::exp(row[j] / 0.7 - most) / sum * (row[j] / 0.7 - most);
        EXPECT_NEAR(logprob[i], row[targets[i]] / 0.7 - most - std::log(sum), 3e-5);
        EXPECT_NEAR(entropy[i], std::log(sum) - moment, 3e-5);
        EXPECT_NEAR(lse[i], most + std::log(sum), 3e-5);
      }
    }
  }
}

TEST_F(ForwardTest, ANanLogitIsNotHidden) {
  std::vector<float> logits = RandomValues(83, 1);
  logits[40] = std::numeric_limits<float>::quiet_NaN();
  const int target = 3;
  float logprob = 0;
  kernels_->LogProb(logits.data(), 1, 83, 1.0F, &target, &logprob, nullptr, nullptr);
  EXPECT_TRUE(std::isnan(logprob));
}

TEST_F(ForwardTest, SumOfSquares) {
  for (const int64_t n : {int64_t{0}, int64_t{1}, int64_t{1000}, int64_t{3000001}}) {
    const std::vector<float> x = RandomValues(n, 1);
    double expected = 0;
    for (const float v : x) expected += static_cast<double>(v) * v;
    EXPECT_NEAR(kernels_->SumOfSquares(x.data(), n), expected, 1e-7 * expected);
  }
}

TEST_F(ForwardTest, AdamWFollowsTheFormula) {
  const int n = 37;
  const AdamWOptions base{
      .learning_rate = 0.01, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3, .weight_decay = 0.1, .clip_scale = 0.5};
  std::vector<float> p = RandomValues(n, 1), m(n), v(n);
  std::vector<double> ep(p.begin(), p.end()), em(n), ev(n);
  for (int step = 1; step <= 3; ++step) {
    const std::vector<float> g = RandomValues(n, 10 + step);
    AdamWOptions options = base;
    options.step = step;
    kernels_->AdamW(options, n, g.data(), p.data(), m.data(), v.data());
    for (int i = 0; i < n; ++i) {
      const double clipped = 0.5 * g[i];
      ep[i] *= 1 - 0.01 * 0.1;
      em[i] = 0.8 * em[i] + 0.2 * clipped;
      ev[i] = 0.95 * ev[i] + 0.05 * clipped * clipped;
      ep[i] -= 0.01 * em[i] / (1 - std::pow(0.8, step)) / (std::sqrt(ev[i] / (1 - std::pow(0.95, step))) + 1e-3);
    }
  }
  ExpectClose(p, ep);
  ExpectClose(m, em);
  ExpectClose(v, ev);
}

TEST_F(ForwardTest, AdamWAtLearningRateZeroKeepsTheParameterBits) {
  std::vector<float> p = RandomValues(37, 1), m(37), v(37);
  const std::vector<float> before = p, g = RandomValues(37, 2);
  kernels_->AdamW({.learning_rate = 0, .weight_decay = 0.1}, 37, g.data(), p.data(), m.data(), v.data());
  EXPECT_EQ(p, before);
  EXPECT_NE(m, std::vector<float>(37));
}

}  // namespace
}  // namespace tandem::testing
