#include "services/text/utf8.h"

namespace tandem::text {
namespace {

// Bounds of the second byte after `lead` (Unicode, table 3-7), and how many bytes a character with this lead has.
struct Lead {
  size_t bytes;
  uint8_t low, high;
};
Lead LeadOf(uint8_t lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead >= 0xC2 && lead <= 0xDF) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead >= 0xE1 && lead <= 0xEF) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead >= 0xF1 && lead <= 0xF3) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Char FirstChar(absl::string_view text) {
  const auto lead = static_cast<uint8_t>(text[0]);
  const Lead form = LeadOf(lead);
  if (form.bytes == 1) return {lead, 1, true};
  if (form.bytes == 0) return {0xFFFD, 1, false};
  char32_t code = lead & (0xFFU >> (form.bytes + 1));
  for (size_t i = 1; i < form.bytes; ++i) {
    const auto byte = i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0};
    const bool fits = i == 1 ? byte >= form.low && byte <= form.high : (byte & 0xC0) == 0x80;
    if (!fits) return {0xFFFD, i, false};
    code = code << 6 | (byte & 0x3FU);
  }
  return {code, form.bytes, true};
}

std::string LossyUtf8(absl::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Utf8Char c = FirstChar(text);
    const absl::string_view bytes = c.valid ? text.substr(0, c.bytes) : kReplacement;
    result.append(bytes.data(), bytes.size());
    text.remove_prefix(c.bytes);
  }
  return result;
}

bool IsValidUtf8(absl::string_view text) {
  while (!text.empty()) {
    const Utf8Char c = FirstChar(text);
    if (!c.valid) return false;
    text.remove_prefix(c.bytes);
  }
  return true;
}

}  // namespace tandem::text
