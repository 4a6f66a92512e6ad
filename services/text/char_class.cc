#include "services/text/char_class.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <array>

namespace tandem::text {
namespace {

struct Range {
  char32_t first, last;
};

// Letters and numbers of Unicode 15.1 and 16 that ICU 72 (Unicode 15) does not know.
constexpr std::array<Range, 22> kNewLetters = {
    {{0x1C89, 0x1C8A},   {0xA7CB, 0xA7CD},   {0xA7DA, 0xA7DC},   {0x105C0, 0x105F3}, {0x10D4A, 0x10D65},
     {0x10D6F, 0x10D85}, {0x10EC2, 0x10EC4}, {0x11380, 0x11389}, {0x1138B, 0x1138B}, {0x1138E, 0x1138E},
     {0x11390, 0x113B5}, {0x113B7, 0x113B7}, {0x113D1, 0x113D1}, {0x113D3, 0x113D3}, {0x11BC0, 0x11BE0},
     {0x13460, 0x143FA}, {0x16100, 0x1611D}, {0x16D40, 0x16D6C}, {0x18CFF, 0x18CFF}, {0x1E5D0, 0x1E5ED},
     {0x1E5F0, 0x1E5F0}, {0x2EBF0, 0x2EE5D}}};
constexpr std::array<Range, 7> kNewNumbers = {{{0x10D40, 0x10D49},
                                               {0x116D0, 0x116E3},
                                               {0x11BF0, 0x11BF9},
                                               {0x16130, 0x16139},
                                               {0x16D70, 0x16D79},
                                               {0x1CCF0, 0x1CCF9},
                                               {0x1E5F1, 0x1E5FA}}};
// Numbers of Unicode 17, which Rust knows and the regex library does not.
constexpr std::array<Range, 2> kNewestNumbers = {{{0x11DE0, 0x11DE9}, {0x16FF4, 0x16FF6}}};

template <size_t kSize>
bool In(const std::array<Range, kSize>& ranges, char32_t code) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [code](const Range& range) { return code >= range.first && code <= range.last; });
}

}  // namespace

CharClass ClassOf(char32_t code) {
  const auto c = static_cast<UChar32>(code);
  const uint32_t category = U_MASK(u_charType(c));
  if ((category & U_GC_L_MASK) != 0) return CharClass::kLetter;
  if ((category & U_GC_N_MASK) != 0) return CharClass::kNumber;
  if (u_isUWhiteSpace(c) != 0) return CharClass::kSpace;
  if (category == U_GC_CN_MASK) {  // unassigned for ICU
    if (In(kNewLetters, code)) return CharClass::kLetter;
    if (In(kNewNumbers, code)) return CharClass::kNumber;
  }
  return CharClass::kOther;
}

bool IsNumeric(char32_t code) {
  return ClassOf(code) == CharClass::kNumber || In(kNewestNumbers, code);
}

}  // namespace tandem::text
