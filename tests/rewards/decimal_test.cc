#include "services/rewards/decimal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::rewards {
namespace {

TEST(Decimal, EqualNumbersAreEqualHoweverTheyAreWritten) {
  const std::vector<std::vector<std::string>> classes = {
      {"0", "-0", "+0", "0.0", "-0.000", ".0", "0.", "000"},
      {"1234.5", "1234.50", "01234.500", "+1234.5"},
      {"-1234.5", "-01234.50"},
      {".5", "0.5", "0.500"},
      {"5", "5.", "5.0", "05"},
      {"123456789012345678901234567890", "0123456789012345678901234567890.0"},
      {"123456789012345678901234567891"},
      {"0.1000000000000000000000000000001"},
  };
  for (size_t i = 0; i < classes.size(); ++i) {
    for (size_t j = 0; j < classes.size(); ++j) {
      for (const std::string& a : classes[i]) {
        for (const std::string& b : classes[j]) {
          ASSERT_TRUE(ParseDecimal(a).has_value()) << a;
          EXPECT_EQ(*ParseDecimal(a) == *ParseDecimal(b), i == j) << a << " and " << b;
        }
      }
    }
  }
}

TEST(Decimal, AnythingElseIsNoNumber) {
  for (const char* text : {"",    "-",    "+",   ".",   "-.", "--5", "+-5", "5-", "1,000", "1.2.3",
                           "1e5", "0x10", "inf", "nan", " 5", "5 ",  "1/2", "５", "½",     "5\n"}) {
    EXPECT_EQ(ParseDecimal(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace tandem::rewards
