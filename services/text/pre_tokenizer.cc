#include "services/text/pre_tokenizer.h"

#include "absl/strings/match.h"
#include "services/text/char_class.h"
#include "services/text/utf8.h"

namespace tandem::text {
namespace {

CharClass ClassAt(absl::string_view text, size_t at, size_t& bytes) {
  const Utf8Char c = FirstChar(text.substr(at));
  bytes = c.bytes;
  return ClassOf(c.code);
}

// End of the run of characters of `run` from `at` on.
size_t RunEnd(absl::string_view text, size_t at, CharClass run) {
  size_t bytes = 0;
  while (at < text.size() && ClassAt(text, at, bytes) == run) at += bytes;
  return at;
}

size_t ContractionBytes(absl::string_view text) {
  for (const absl::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (absl::StartsWith(text, ending)) return ending.size();
  }
  return 0;
}

// \s+(?!\S)|\s+ : all of a run at the end of the text, else the run without its last character unless that is all.
size_t SpaceBytes(absl::string_view text) {
  size_t bytes = 0;
  size_t end = 0;
  size_t last = 0;  // where the last character begins
  while (end < text.size() && ClassAt(text, end, bytes) == CharClass::kSpace) {
    last = end;
    end += bytes;
  }
  return end == text.size() || last == 0 ? end : last;
}

// Bytes of the first match of the pattern; every character matches something.
size_t MatchBytes(absl::string_view text) {
  if (text[0] == '\'') {
    const size_t contraction = ContractionBytes(text);
    if (contraction > 0) return contraction;
  }
  size_t at = text[0] == ' ' && text.size() > 1 ? 1 : 0;
  size_t bytes = 0;
  const CharClass run = ClassAt(text, at, bytes);
  if (run == CharClass::kSpace) return SpaceBytes(text);
  return RunEnd(text, at + bytes, run);
}

void Gpt2(absl::string_view text, const std::function<void(absl::string_view)>& emit) {
  while (!text.empty()) {
    const size_t bytes = MatchBytes(text);
    emit(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
}

}  // namespace

void PreTokenize(absl::string_view text, bool split_digits, const std::function<void(absl::string_view)>& emit) {
  if (!split_digits) return Gpt2(text, emit);
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = FirstChar(text.substr(at));
    if (IsNumeric(c.code)) {
      Gpt2(text.substr(begin, at - begin), emit);
      emit(text.substr(at, c.bytes));
      begin = at + c.bytes;
    }
    at += c.bytes;
  }
  Gpt2(text.substr(begin), emit);
}

}  // namespace tandem::text
