#include "services/rewards/numeric_match.h"

#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "services/rewards/cell_text.h"

namespace tandem::rewards {
namespace {

constexpr absl::string_view kMark = "####";
constexpr absl::string_view kBoxed = "\\boxed{";
constexpr absl::string_view kMinusSign = "\xE2\x88\x92";  // U+2212

// What a marked answer may contain besides the number. Inner line ends stay: two lines are not one number.
std::optional<Decimal> ParseMarked(absl::string_view text) {
  std::string cleaned = absl::StrReplaceAll(absl::StripAsciiWhitespace(text), {{"\\$", ""},
                                                                               {"\\%", ""},
                                                                               {"\\,", ""},
                                                                               {"\\ ", ""},
                                                                               {"\\!", ""},
                                                                               {"$", ""},
                                                                               {",", ""},
                                                                               {"%", ""},
                                                                               {" ", ""},
                                                                               {"\t", ""},
                                                                               {"\xC2\xA0", ""},      // U+00A0
                                                                               {"\xE2\x80\xAF", ""},  // U+202F
                                                                               {"\xE2\x80\x89", ""},  // U+2009
                                                                               {kMinusSign, "-"}});
  if (absl::EndsWith(cleaned, ".")) cleaned.pop_back();
  return ParseDecimal(cleaned);
}

// The content of the last \boxed{...} whose braces balance. One pass over the text; unclosed ones are skipped.
std::optional<absl::string_view> LastBoxed(absl::string_view text) {
  std::vector<std::pair<size_t, bool>> open;  // content start of each open brace; whether it is a box
  std::optional<std::pair<size_t, size_t>> last;
  for (size_t i = 0; i < text.size(); ++i) {
    if (absl::StartsWith(text.substr(i), kBoxed)) {
      i += kBoxed.size() - 1;
      open.emplace_back(i + 1, true);
    } else if (text[i] == '\\') {
      ++i;  // an escaped brace is not a brace
    } else if (text[i] == '{') {
      open.emplace_back(i + 1, false);
    } else if (text[i] == '}' && !open.empty()) {
      const auto [begin, is_box] = open.back();
      open.pop_back();
      if (is_box && (!last || begin > last->first)) last = {begin, i - begin};
    }
  }
  if (!last) return std::nullopt;
  return text.substr(last->first, last->second);
}

size_t SkipDigits(absl::string_view text, size_t i) {
  while (i < text.size() && absl::ascii_isdigit(text[i])) ++i;
  return i;
}

// The end of the number that starts at the digit or point `begin`: digits, or groups of three after commas, then a
// point with digits.
size_t NumberEnd(absl::string_view text, size_t begin) {
  size_t end = SkipDigits(text, begin);
  if (end > begin && end - begin <= 3) {
    while (end < text.size() && text[end] == ',' && SkipDigits(text, end + 1) == end + 4) end += 4;
  }
  if (end + 1 < text.size() && text[end] == '.' && absl::ascii_isdigit(text[end + 1])) end = SkipDigits(text, end + 1);
  return end;
}

// Whether a minus stands before the number at `begin` (a "$" may be between) that is a sign, not an operator: "-5",
// "= -$5", but not "8-5".
bool HasSign(absl::string_view text, size_t begin) {
  absl::string_view before = text.substr(0, begin);
  if (absl::EndsWith(before, "$")) before.remove_suffix(1);
  if (absl::EndsWith(before, "-")) {
    before.remove_suffix(1);
  } else if (absl::EndsWith(before, kMinusSign)) {
    before.remove_suffix(kMinusSign.size());
  } else {
    return false;
  }
  return before.empty() || !(absl::ascii_isalnum(before.back()) || before.back() == ')');
}

std::optional<Decimal> LastNumber(absl::string_view text) {
  std::optional<std::pair<size_t, size_t>> last;
  for (size_t i = 0; i < text.size();) {
    const bool point = text[i] == '.' && i + 1 < text.size() && absl::ascii_isdigit(text[i + 1]);
    if (!absl::ascii_isdigit(text[i]) && !point) {
      ++i;
      continue;
    }
    const size_t end = NumberEnd(text, i);
    last = {i, end};
    i = end;
  }
  if (!last) return std::nullopt;
  const std::string digits = absl::StrReplaceAll(text.substr(last->first, last->second - last->first), {{",", ""}});
  return ParseDecimal(absl::StrCat(HasSign(text, last->first) ? "-" : "", digits));
}

class NumericMatch final : public Reward {
 public:
  explicit NumericMatch(std::string answer_column) : answer_column_(std::move(answer_column)) {}

  std::string name() const override { return "numeric_match"; }
  std::vector<std::string> RequiredColumns() const override { return {answer_column_}; }

  absl::StatusOr<std::vector<std::optional<double>>> Score(const RewardBatch& batch) override {
    if (batch.rows.size() != batch.completions.size()) {
      return absl::InvalidArgumentError(absl::StrCat("numeric_match: ", batch.completions.size(), " completions but ",
                                                     batch.rows.size(), " dataset rows"));
    }
    std::vector<std::optional<double>> rewards;
    rewards.reserve(batch.completions.size());
    for (size_t i = 0; i < batch.completions.size(); ++i) {
      const std::optional<Decimal> gold = Gold(*batch.rows[i]);
      if (!gold) {
        rewards.emplace_back();
      } else {
        rewards.emplace_back(ExtractAnswer(batch.completions[i]) == gold ? 1.0 : 0.0);
      }
    }
    return rewards;
  }

 private:
  std::optional<Decimal> Gold(const nlohmann::json& row) const {
    const auto cell = row.find(answer_column_);
    if (cell == row.end()) return std::nullopt;
    const absl::StatusOr<std::string> text = CellText(*cell);
    return text.ok() ? ExtractAnswer(*text) : std::nullopt;
  }

  const std::string answer_column_;
};

}  // namespace

std::optional<Decimal> ExtractAnswer(absl::string_view text) {
  if (const size_t mark = text.rfind(kMark); mark != absl::string_view::npos) {
    return ParseMarked(text.substr(mark + kMark.size()));
  }
  if (const std::optional<absl::string_view> boxed = LastBoxed(text)) return ParseMarked(*boxed);
  return LastNumber(text);
}

std::unique_ptr<Reward> MakeNumericMatch(const RewardSpec& spec) {
  return std::make_unique<NumericMatch>(spec.answer_column);
}

}  // namespace tandem::rewards
