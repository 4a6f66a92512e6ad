#pragma once
// A tokenizer of tokenizers' JSON format: byte-level BPE. Immutable after Load; thread-safe.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tandem::text {

struct ChatMessage {
  std::string role;
  std::string content;
};

class Tokenizer {
 public:
  // Reads DIR/tokenizer.json and DIR/tokenizer_config.json (and chat_template.jinja if present). A component that is
  // not supported (normaliser, pre-tokenizer, model, post-processor, decoder, chat template) is refused by name.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const std::string& dir);
  ~Tokenizer();

  // Text to ids. Special tokens written in the text are recognised. `add_special_tokens`: those of the post-processor.
  std::vector<int> Encode(absl::string_view text, bool add_special_tokens) const;
  // Ids to text; invalid UTF-8 becomes U+FFFD, as tokenizers does it. Ids outside the vocabulary are skipped.
  std::string Decode(absl::Span<const int> ids, bool skip_special_tokens) const;

  bool has_chat_template() const;
  // The conversation as text. Encode it with add_special_tokens = false.
  absl::StatusOr<std::string> RenderChat(absl::Span<const ChatMessage> messages, bool add_generation_prompt) const;

  int vocab_size() const;  // highest id + 1
  // tokenizer_config.json's eos_token and pad_token.
  std::optional<int> eos_token_id() const;
  std::optional<int> pad_token_id() const;
  std::optional<int> TokenId(absl::string_view token) const;
  bool IsSpecial(int id) const;

  class Impl;

 private:
  friend class DecodeStream;
  Tokenizer();
  std::unique_ptr<Impl> impl_;
};

// Ids to text, one id at a time, as tokenizers' DecodeStream does it. One thread; the tokenizer must outlive it.
class DecodeStream {
 public:
  DecodeStream(const Tokenizer& tokenizer, bool skip_special_tokens);
  ~DecodeStream();
  // Text that `id` completes; nullopt while a character is incomplete.
  std::optional<std::string> Step(int id);
  // What is still held back at the end (an incomplete character becomes U+FFFD).
  std::string Flush();

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_tokens_;
  std::vector<int> ids_;
  std::string prefix_;
  size_t prefix_index_ = 0;
};

}  // namespace tandem::text
