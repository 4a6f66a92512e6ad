#include "absl/strings/match.h"
#include "services/text/tokenizer.h"
#include "services/text/utf8.h"

namespace tandem::text {

// Decodes the ids since the emission before last together, and emits what is new once the text no longer ends in
// U+FFFD, the mark of an incomplete character. The two windows keep a token's text dependent on its neighbours only.
DecodeStream::DecodeStream(const Tokenizer& tokenizer, bool skip_special_tokens)
    : tokenizer_(tokenizer), skip_special_tokens_(skip_special_tokens) {}
DecodeStream::~DecodeStream() = default;

std::optional<std::string> DecodeStream::Step(int id) {
  if (prefix_.empty() && !ids_.empty()) {
    std::string prefix = tokenizer_.Decode(ids_, skip_special_tokens_);
    if (!absl::EndsWith(prefix, kReplacement)) {
      prefix_ = std::move(prefix);
      prefix_index_ = ids_.size();
    }
  }
  ids_.push_back(id);
  std::string text = tokenizer_.Decode(ids_, skip_special_tokens_);
  if (text.size() <= prefix_.size() || absl::EndsWith(text, kReplacement)) return std::nullopt;
  std::string fresh = text.substr(prefix_.size());
  const size_t next_prefix_index = ids_.size() - prefix_index_;
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<ptrdiff_t>(prefix_index_));
  prefix_ = tokenizer_.Decode(ids_, skip_special_tokens_);
  prefix_index_ = next_prefix_index;
  return fresh;
}

std::string DecodeStream::Flush() {
  std::string text = tokenizer_.Decode(ids_, skip_special_tokens_);
  std::string rest = text.size() > prefix_.size() ? text.substr(prefix_.size()) : "";
  ids_.clear();
  prefix_.clear();
  prefix_index_ = 0;
  return rest;
}

}  // namespace tandem::text
