#pragma once
// Central differences against a backward, element by element.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace tandem::testing {

// The loss in fp64: sum of dout * out.
inline double WeightedSum(const std::vector<float>& dout, const std::vector<float>& out) {
  double sum = 0;
  for (size_t i = 0; i < out.size(); ++i) sum += static_cast<double>(dout[i]) * out[i];
  return sum;
}

// Expects gradient[i] = d loss / d x[i] for every `every`th element of x. `loss` reads x. The tolerance is relative to
// the largest gradient: the forward is fp32, so a difference over 2 * step carries its rounding.
inline void ExpectFiniteDifferences(const std::string& name, std::vector<float>& x, const std::vector<float>& gradient,
                                    const std::function<double()>& loss, size_t every = 1, float step = 5e-3F,
                                    double tolerance = 2e-3) {
  ASSERT_EQ(x.size(), gradient.size()) << name;
  double largest = 0;
  for (const float g : gradient) largest = std::max(largest, std::abs(static_cast<double>(g)));
  ASSERT_GT(largest, 0) << name;
  for (size_t i = 0; i < x.size(); i += every) {
    const float old = x[i];
    x[i] = old + step;
    const float above = x[i];
    const double loss_above = loss();
    x[i] = old - step;
    const double width = static_cast<double>(above) - x[i];
    const double slope = (loss_above - loss()) / width;
    x[i] = old;
    ASSERT_NEAR(slope, gradient[i], tolerance * largest) << name << " element " << i;
  }
}

}  // namespace tandem::testing
