#include "services/rewards/numeric_match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "services/rewards/cell_text.h"
#include "tests/testing/status_matchers.h"

namespace tandem::rewards {
namespace {

using ::tandem::testing::IsOk;
using ::tandem::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

// Answer "" stands for none.
struct Case {
  const char* text;
  const char* answer;
};

void Check(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const std::optional<Decimal> wanted = ParseDecimal(c.answer);
    EXPECT_EQ(ExtractAnswer(c.text), wanted) << "text: " << c.text << "\nanswer: " << c.answer;
  }
}

TEST(NumericMatch, TextAfterTheLastMarkIsTheAnswer) {
  Check({
      {"#### 42", "42"},
      {"####42", "42"},
      {"1 + 1 = 2\n#### 2\n", "2"},
      {"#### 1\n#### 2", "2"},
      {"#### 1,234.50", "1234.5"},
      {"#### $1,234.50.", "1234.5"},
      {"#### -$5", "-5"},
      {"#### $-5", "-5"},
      {"#### 50%", "50"},
      {"#### 50 %.", "50"},
      {"#### 1 000 000", "1000000"},
      {"#### 12,34", "1234"},
      {"#### \\$18", "18"},
      {"#### 25\\%", "25"},
      {"#### -0", "0"},
      {"#### \xE2\x88\x92"
       "7",
       "-7"},
      {"#### 1\xC2\xA0"
       "000",
       "1000"},
      {"##### 7", "7"},
      {"######## 7", "7"},
      {"\\boxed{3} and 4 #### 5", "5"},
      // Marked, but no number as a whole: no answer, and no other place is tried.
      {"####", ""},
      {"12 ####", ""},
      {"#### 42 apples", ""},
      {"#### 1/2", ""},
      {"#### 1e3", ""},
      {"#### 42...", ""},
      {"#### 42\n43", ""},
      {"\\boxed{3} #### none", ""},
      {"### 42 ###", "42"},  // three are no mark: the last number
  });
}

TEST(NumericMatch, ElseTheContentOfTheLastBalancedBox) {
  Check({
      {"so \\boxed{42}", "42"},
      {"\\boxed{1} then \\boxed{2} but 3", "2"},
      {"\\boxed{ 1,000.0 }", "1000"},
      {"\\boxed{\\$12}", "12"},
      {"\\boxed{1\\,000}", "1000"},
      {"\\boxed{-3.}", "-3"},
      {"\\boxed{41} \\boxed{42", "41"},  // the last one is not closed
      {"\\boxed{\\boxed{5}}", "5"},
      {"{ \\boxed{6}", "6"},
      {"} \\boxed{6} {", "6"},
      {"$\\boxed{7}$.", "7"},
      {"\\boxed{\\frac{1}{2}}", ""},
      {"\\boxed{}", ""},
      {"\\boxed{x=3}", ""},
      {"\\boxed{42 and 43", "43"},  // none is balanced: the last number
      {"\\boxed {42} 43", "43"},    // not a box
      {"\\boxed{\\}8} 9", ""},      // an escaped brace does not close
      {"boxed{5} 6", "6"},
  });
}

TEST(NumericMatch, ElseTheLastNumber) {
  Check({
      {"42", "42"},
      {"The answer is 42.", "42"},
      {"from 1 to 10", "10"},
      {"1,234,567.50 dollars", "1234567.5"},
      {"it costs $3.50.", "3.5"},
      {"it is -5", "-5"},
      {"it is -$5", "-5"},
      {"it is \xE2\x88\x92"
       "5",
       "-5"},
      {"10-3", "3"},
      {"(1)-3", "3"},
      {"x = -3", "-3"},
      {"12 + 34 = 46", "46"},
      {"0.5", "0.5"},
      {".5", "0.5"},
      {"is .25", "0.25"},
      {"1,23", "23"},
      {"1,2345", "2345"},
      {"1234,567", "567"},
      {"12,345", "12345"},
      {"3.", "3"},
      {"007", "7"},
      {"50%", "50"},
      {"", ""},
      {"no number", ""},
      {"-", ""},
      {"...", ""},
      {"1/2", "2"},
      {"99999999999999999999999999", "99999999999999999999999999"},
  });
}

std::vector<std::optional<double>> Score(const std::vector<std::string>& completions,
                                         const std::vector<nlohmann::json>& rows,
                                         const RewardSpec& spec = {.name = "numeric_match"}) {
  std::vector<const nlohmann::json*> pointers;
  for (const nlohmann::json& row : rows) pointers.push_back(&row);
  auto reward = MakeReward(spec);
  EXPECT_THAT(reward, IsOk());
  auto scores = (*reward)->Score({.prompts = {}, .completions = completions, .completion_ids = {}, .rows = pointers});
  EXPECT_THAT(scores, IsOk());
  return *scores;
}

TEST(NumericMatch, EqualAsDecimalsGivesOneElseZero) {
  EXPECT_THAT(Score({"it is 1234.5", "it is 1234.51", "no idea", "#### -0"},
                    {{{"answer", "1+1\n#### 1,234.50"}}, {{"answer", "1234.5"}}, {{"answer", "3"}}, {{"answer", "0"}}}),
              ElementsAre(Optional(1.0), Optional(0.0), Optional(0.0), Optional(1.0)));
}

TEST(NumericMatch, GoldWithoutANumberGivesNone) {
  EXPECT_THAT(
      Score({"5", "5", "5", "5"}, {{{"answer", "none"}}, {{"answer", nullptr}}, {{"other", 5}}, {{"answer", {5}}}}),
      ElementsAre(std::nullopt, std::nullopt, std::nullopt, std::nullopt));
}

TEST(NumericMatch, GoldMayBeANumberOfJson) {
  EXPECT_THAT(Score({"5", "0.1", "-3", "10000000000000000000000", "6"},
                    {{{"sum", 5}}, {{"sum", 0.1}}, {{"sum", -3}}, {{"sum", 1e22}}, {{"sum", 5}}},
                    {.name = "numeric_match", .answer_column = "sum"}),
              ElementsAre(Optional(1.0), Optional(1.0), Optional(1.0), Optional(1.0), Optional(0.0)));
}

TEST(NumericMatch, RowsThatDoNotFitTheCompletionsAreRefused) {
  auto reward = MakeReward({.name = "numeric_match"});
  ASSERT_THAT(reward, IsOk());
  const std::vector<std::string> completions = {"1"};
  EXPECT_THAT((*reward)->Score({.prompts = {}, .completions = completions, .completion_ids = {}, .rows = {}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1 completions but 0")));
}

TEST(NumericMatch, LongTextsTakeLinearTime) {
  std::string boxes;
  for (int i = 0; i < 200'000; ++i) boxes += "\\boxed{";
  EXPECT_EQ(ExtractAnswer(boxes), std::nullopt);
  EXPECT_EQ(ExtractAnswer(boxes + std::string(200'000, '{') + " 12"), ParseDecimal("12"));
  EXPECT_EQ(ExtractAnswer(std::string(2'000'000, '7')), ParseDecimal(std::string(2'000'000, '7')));
}

TEST(Reward, UnknownNameIsRefusedWithThoseKnown) {
  EXPECT_THAT(MakeReward({.name = "nope"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'nope'; known are: numeric_match")));
}

TEST(CellText, ScalarsAreTextOthersAreNot) {
  EXPECT_THAT(*CellText("a"), "a");
  EXPECT_THAT(*CellText(12), "12");
  EXPECT_THAT(*CellText(-0.5), "-0.5");
  EXPECT_THAT(*CellText(1e21), "1000000000000000000000");
  EXPECT_THAT(*CellText(true), "true");
  for (const nlohmann::json& cell : {nlohmann::json(), nlohmann::json::array(), nlohmann::json::object()}) {
    EXPECT_THAT(CellText(cell), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not text")));
  }
}

}  // namespace
}  // namespace tandem::rewards
