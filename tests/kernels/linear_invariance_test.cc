// A row of a product has the same bits for any number and order of other rows, any thread count and any vector width.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "tests/kernels/random_values.h"

namespace tandem::testing {
namespace {

constexpr int kMostRows = 512;

struct Product {
  int k, n;
};

// Shapes of SmolLM2-135M but its head, and of the quickstart's model with two vocabularies.
const Product kProducts[] = {{576, 960}, {576, 576}, {576, 3072}, {1536, 576}, {128, 384}, {128, 128},
                             {128, 768}, {384, 128}, {128, 1024}, {512, 128},  {128, 260}, {128, 261}};
const Product kHead = {576, 49152};

class Rows {
 public:
  explicit Rows(Product product)
      : product_(product),
        x_(RandomValues(int64_t{kMostRows} * product.k, 1)),
        w_(RandomValues(int64_t{product.k} * product.n, 2)),
        expected_(int64_t{kMostRows} * product.n),
        order_(kMostRows) {
    std::iota(order_.begin(), order_.end(), 0);
    MakeCpuKernels(2)->Linear(Shape(kMostRows), x_.data(), w_.data(), nullptr, expected_.data());
    shuffled_x_ = x_;
    out_.resize(expected_.size());
  }

  // The first rows of a new permutation at every call.
  void Check(Kernels& kernels, int rows) {
    Shuffle();
    std::fill_n(out_.begin(), int64_t{rows} * product_.n, -1.0F);
    kernels.Linear(Shape(rows), shuffled_x_.data(), w_.data(), nullptr, out_.data());
    for (int i = 0; i < rows; ++i) {
      ASSERT_EQ(std::memcmp(&out_[int64_t{i} * product_.n], &expected_[int64_t{order_[i]} * product_.n],
                            product_.n * sizeof(float)),
                0)
          << kernels.description() << ": k " << product_.k << ", n " << product_.n << ", " << rows << " rows, row "
          << order_[i];
    }
  }

  // Every element as one chain of fused multiply-adds, for some of the rows.
  void CheckChains() const {
    for (const int row : {0, 7, kMostRows - 1}) {
      for (int n = 0; n < product_.n; ++n) {
        float sum = 0;
        for (int k = 0; k < product_.k; ++k) {
          sum = std::fma(x_[int64_t{row} * product_.k + k], w_[int64_t{k} * product_.n + n], sum);
        }
        ASSERT_EQ(sum, expected_[int64_t{row} * product_.n + n]) << "row " << row << " column " << n;
      }
    }
  }

 private:
  LinearShape Shape(int rows) const { return {rows, product_.k, product_.n, product_.n}; }
  void Shuffle() {
    std::shuffle(order_.begin(), order_.end(), random_);
    for (int i = 0; i < kMostRows; ++i) {
      std::copy_n(&x_[int64_t{order_[i]} * product_.k], product_.k, &shuffled_x_[int64_t{i} * product_.k]);
    }
  }

  Product product_;
  std::vector<float> x_, w_, expected_, shuffled_x_, out_;
  std::vector<int> order_;
  std::mt19937 random_{3};
};

TEST(LinearInvariance, EveryRowCountOfEveryLayerShape) {
  const auto two_threads = MakeCpuKernels(2);
  for (const Product product : kProducts) {
    Rows rows(product);
    for (int count = 1; count <= kMostRows; ++count) {
      rows.Check(*two_threads, count);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(LinearInvariance, EveryRowCountOfTheHead) {
  const auto two_threads = MakeCpuKernels(2);
  Rows rows(kHead);
  for (int count = 1; count <= kMostRows; ++count) {
    rows.Check(*two_threads, count);
    if (HasFatalFailure()) return;
  }
}

TEST(LinearInvariance, ThreadsAndVectorWidths) {
  const auto all = AllCpuKernels();
  for (const Product product : kProducts) {
    Rows rows(product);
    const bool large = product.k * product.n > 128 * 1024;
    for (int count = 1; count <= kMostRows; count += count < 40 || !large ? 1 : 59) {
      rows.Check(*all[count % all.size()], count);
      if (HasFatalFailure()) return;
    }
  }
  Rows head(kHead);
  for (const auto& kernels : all) {
    for (const int count : {1, 5, 16, 17, 48}) {
      head.Check(*kernels, count);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(LinearInvariance, AnElementIsOneAscendingChain) {
  for (const Product product : kProducts) {
    const Rows rows(product);
    rows.CheckChains();
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace tandem::testing
