#include "common/base/philox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace tandem {
namespace {

using ::testing::ElementsAre;

// Known answers published with the Random123 library for philox4x32-10.
TEST(PhiloxTest, GivesThePublishedKnownAnswers) {
  EXPECT_THAT(Philox(0, 0, 0), ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(Philox(~0ULL, ~0ULL, ~0ULL), ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(Philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(PhiloxTest, PermutationHoldsEachIndexOnceAndDependsOnSeedAndStream) {
  const auto order = PhiloxPermutation(1000, 7, 3);
  auto sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (int64_t i = 0; i < 1000; ++i) ASSERT_EQ(sorted[static_cast<size_t>(i)], i);
  EXPECT_EQ(order, PhiloxPermutation(1000, 7, 3));
  EXPECT_NE(order, PhiloxPermutation(1000, 7, 4));
  EXPECT_NE(order, PhiloxPermutation(1000, 8, 3));
}

}  // namespace
}  // namespace tandem
