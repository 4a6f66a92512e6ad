#include "services/jobs/yaml_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::jobs {
namespace {

constexpr const char* kText = R"(task: grpo

# a comment
rewards:
  - {name: numeric_match, weight: 1}
  - name: b
    pattern: "x"
dataset: {path: a,
          chat: auto}
"odd.key[x]": 1
)";

std::optional<std::pair<int, int>> At(const char* path) {
  const auto place = LineOf(kText, path);
  return place ? std::optional(std::pair(place->line, place->column)) : std::nullopt;
}

TEST(LineOf, FindsKeysAndEntries) {
  EXPECT_EQ(At("task"), std::pair(1, 1));
  EXPECT_EQ(At("rewards"), std::pair(4, 1));
  EXPECT_EQ(At("rewards[0]"), std::pair(5, 5));
  EXPECT_EQ(At("rewards[0].weight"), std::pair(5, 27));
  EXPECT_EQ(At("rewards[1].name"), std::pair(6, 5));
  EXPECT_EQ(At("rewards[1].pattern"), std::pair(7, 5));
  EXPECT_EQ(At("dataset.chat"), std::pair(9, 11));
}

TEST(LineOf, MissingPartsGiveThePlaceOfWhatIsThere) {
  EXPECT_EQ(At("dataset.prompt_column"), std::pair(8, 1));
  EXPECT_EQ(At("rewards[7].name"), std::pair(4, 1));
  EXPECT_EQ(At("task.deep[1].er"), std::pair(1, 1));
  EXPECT_EQ(At("nothing"), std::nullopt);
  EXPECT_EQ(At(""), std::nullopt);
  EXPECT_EQ(At("[0]"), std::nullopt);
  EXPECT_EQ(At("rewards[x"), std::nullopt);
}

TEST(LineOf, TextThatIsNoYamlHasNoLines) {
  EXPECT_FALSE(LineOf("a: [", "a").has_value());
}

TEST(FindYamlError, GivesLineAndColumn) {
  EXPECT_FALSE(FindYamlError(kText).has_value());
  const auto error = FindYamlError("task: grpo\nname: [a\nseed: 1\n");
  ASSERT_TRUE(error.has_value());
  EXPECT_GE(error->place.line, 2);
  EXPECT_LE(error->place.line, 4);
  EXPECT_FALSE(error->description.empty());
}

}  // namespace
}  // namespace tandem::jobs
