#include "services/trainer/step/packs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::trainer {
namespace {

using ::testing::ElementsAre;

TEST(PacksTest, WholeRowsInOrderUpToTheLimit) {
  const std::vector<int> ids(100, 7);
  const auto row = [&](size_t context, size_t scored) {
    return Sequence{absl::MakeConstSpan(ids).subspan(0, context), absl::MakeConstSpan(ids).subspan(0, scored)};
  };
  // Input tokens: 4, 5, 9, 20, 3.
  const std::vector<Sequence> rows = {row(2, 3), row(5, 1), row(5, 5), row(10, 11), row(1, 3)};
  const std::vector<size_t> all = {0, 1, 2, 3, 4};
  EXPECT_THAT(PlanPacks(rows, all, 10), ElementsAre(ElementsAre(0, 1), ElementsAre(2), ElementsAre(3), ElementsAre(4)));
  EXPECT_THAT(PlanPacks(rows, all, 1000), ElementsAre(ElementsAre(0, 1, 2, 3, 4)));
  const std::vector<size_t> some = {4, 2};
  EXPECT_THAT(PlanPacks(rows, some, 12), ElementsAre(ElementsAre(4, 2)));
  EXPECT_THAT(PlanPacks(rows, {}, 12), ElementsAre());
}

TEST(PacksTest, EachScoredTokenIsPredictedFromTheOneBefore) {
  const std::vector<int> prompt_a = {10, 11}, completion_a = {12, 13}, prompt_b = {20}, completion_b = {21};
  const std::vector<Sequence> rows = {{prompt_a, completion_a}, {prompt_b, completion_b}};
  const Pack pack = MakePack(rows, {0, 1});
  EXPECT_THAT(pack.tokens, ElementsAre(10, 11, 12, 20));  // 13 and 21 predict nothing
  EXPECT_THAT(pack.cu_seqlens, ElementsAre(0, 3, 4));
  EXPECT_THAT(pack.scored_rows, ElementsAre(1, 2, 3));
  EXPECT_THAT(pack.targets, ElementsAre(12, 13, 21));
}

TEST(PacksTest, LargestPackIsBoundedByTheRowsThereAre) {
  EXPECT_EQ(LargestPack(2048, 30, 8), 240);
  EXPECT_EQ(LargestPack(2048, 30, 1000), 2048);
  EXPECT_EQ(LargestPack(16, 30, 1000), 30);  // a row is never split
}

}  // namespace
}  // namespace tandem::trainer
