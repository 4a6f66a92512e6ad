#include "services/text/pre_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "services/text/added_tokens.h"
#include "services/text/utf8.h"

namespace tandem::text {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Cut(const std::string& text, bool digits = false) {
  std::vector<std::string> tokens;
  PreTokenize(text, digits, [&tokens](absl::string_view token) { tokens.emplace_back(token); });
  return tokens;
}

TEST(PreTokenizer, WordsKeepOneSpaceBeforeThem) {
  EXPECT_THAT(Cut("Hello, world  again"), ElementsAre("Hello", ",", " world", " ", " again"));
  EXPECT_THAT(Cut(" a"), ElementsAre(" a"));
  EXPECT_THAT(Cut("   a"), ElementsAre("  ", " a"));
  EXPECT_THAT(Cut("a   "), ElementsAre("a", "   "));
  EXPECT_THAT(Cut("a\n b"), ElementsAre("a", "\n", " b"));
  EXPECT_THAT(Cut("a\n\nb"), ElementsAre("a", "\n", "\n", "b"));
  EXPECT_THAT(Cut(""), ElementsAre());
}

TEST(PreTokenizer, ContractionsAreCutInLowerCaseOnly) {
  EXPECT_THAT(Cut("it's we'll I'VE"), ElementsAre("it", "'s", " we", "'ll", " I", "'", "VE"));
  EXPECT_THAT(Cut("''s"), ElementsAre("''", "s"));
}

TEST(PreTokenizer, NumbersAreRunsUnlessDigitsAreSplit) {
  EXPECT_THAT(Cut("a12 34\u00B2"), ElementsAre("a", "12", " 34\u00B2"));
  EXPECT_THAT(Cut("a12 34\u00B2", true), ElementsAre("a", "1", "2", " ", "3", "4", "\u00B2"));
  // What stands before a digit ends there: its spaces are the end of a text of their own.
  EXPECT_THAT(Cut("a  1", true), ElementsAre("a", "  ", "1"));
}

TEST(Utf8, InvalidPartsBecomeOneReplacementEach) {
  EXPECT_EQ(LossyUtf8("a\xC3\xA9"), "a\u00E9");
  EXPECT_EQ(LossyUtf8("\xF0\x9F\x98"), "\uFFFD");  // one cut character
  EXPECT_EQ(LossyUtf8("\xF0\x9F\x98z"), "\uFFFDz");
  EXPECT_EQ(LossyUtf8("\xC0\x80"), "\uFFFD\uFFFD");                      // overlong
  EXPECT_EQ(LossyUtf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");            // a surrogate
  EXPECT_EQ(LossyUtf8("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");  // beyond U+10FFFF
  EXPECT_EQ(LossyUtf8("\xE4\xBD\xE4\xBD\xA0"), "\uFFFD\u4F60");
  EXPECT_TRUE(IsValidUtf8("\U0010FFFF\uFFFD"));
  EXPECT_FALSE(IsValidUtf8("\x80"));
}

std::vector<std::string> Pieces(const AddedTokens& tokens, const std::string& text) {
  std::vector<std::string> pieces;
  for (const AddedTokens::Piece& piece : tokens.Split(text)) {
    pieces.push_back(piece.id.has_value() ? std::to_string(*piece.id) : std::string(piece.text));
  }
  return pieces;
}

TEST(AddedTokens, TheLeftmostLongestMatchWins) {
  const AddedTokens tokens({{1, "ab", false, false}, {2, "abc", true, false}, {3, "bcd", true, false}});
  EXPECT_THAT(Pieces(tokens, "xabcdab"), ElementsAre("x", "2", "d", "1"));
  EXPECT_THAT(Pieces(tokens, "abab"), ElementsAre("1", "1"));
  EXPECT_THAT(Pieces(tokens, "a"), ElementsAre("a"));
  EXPECT_THAT(Pieces(tokens, ""), ElementsAre());
}

TEST(AddedTokens, NormalizedOnesAreFoundBetweenTheOthers) {
  const AddedTokens tokens({{1, "abc", false, true}, {2, "cd", true, false}});
  EXPECT_THAT(Pieces(tokens, "abcd"), ElementsAre("ab", "2"));
  EXPECT_THAT(Pieces(tokens, "abc"), ElementsAre("1"));
}

}  // namespace
}  // namespace tandem::text
