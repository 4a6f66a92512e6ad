#include "services/client/addition_problems.h"

#include <gtest/gtest.h>

#include <set>

#include "common/base/file.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/testing.h"

namespace tandem::client {
namespace {

TEST(AdditionProblemsTest, EveryPairIsEitherTrainedInBothOrdersOrHeldOutOnce) {
  const AdditionProblems problems = MakeAdditionProblems(512, 1);
  EXPECT_EQ(problems.held_out.size(), 512U);
  EXPECT_EQ(CountOverlap(problems), 0);
  std::set<std::pair<int, int>> ordered;
  for (const Addition& sum : problems.train) EXPECT_TRUE(ordered.insert({sum.a, sum.b}).second);
  for (const Addition& sum : problems.train) EXPECT_TRUE(ordered.contains({sum.b, sum.a}));
  for (const Addition& sum : problems.held_out) {
    EXPECT_TRUE(ordered.insert({sum.a, sum.b}).second);
    ordered.insert({sum.b, sum.a});
  }
  EXPECT_EQ(ordered.size(), 90U * 90U);
}

TEST(AdditionProblemsTest, OverlapIsCountedInEitherOrder) {
  AdditionProblems problems;
  problems.train = {{12, 34}, {50, 60}};
  problems.held_out = {{34, 12}, {60, 61}};
  EXPECT_EQ(CountOverlap(problems), 1);
}

TEST(AdditionProblemsTest, TheSeedDecidesTheFiles) {
  const testing::TempDir temp;
  for (const char* name : {"a", "b"}) {
    ASSERT_THAT(WriteAdditionProblems(temp.File(name), MakeAdditionProblems(500, 7)), testing::IsOk());
  }
  ASSERT_THAT(WriteAdditionProblems(temp.File("c"), MakeAdditionProblems(500, 8)), testing::IsOk());
  ASSERT_OK_AND_ASSIGN(const std::string a, ReadFile(temp.File("a/train.jsonl")));
  ASSERT_OK_AND_ASSIGN(const std::string b, ReadFile(temp.File("b/train.jsonl")));
  ASSERT_OK_AND_ASSIGN(const std::string c, ReadFile(temp.File("c/train.jsonl")));
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
}

}  // namespace
}  // namespace tandem::client
