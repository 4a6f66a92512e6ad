#include "services/text/tokenizer.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "services/text/added_tokens.h"
#include "services/text/bpe.h"
#include "services/text/byte_symbols.h"
#include "services/text/chat_template.h"
#include "services/text/pre_tokenizer.h"
#include "services/text/tokenizer_config.h"
#include "services/text/tokenizer_json.h"
#include "services/text/utf8.h"

namespace tandem::text {

class Tokenizer::Impl {
 public:
  Impl(TokenizerSpec spec, TokenizerConfig config)
      : split_digits_(spec.split_digits),
        bpe_(spec.byte_tokens, spec.merges),
        added_(spec.added),
        config_(std::move(config)),
        special_(spec.vocab.size(), false) {
    for (size_t id = 0; id < spec.vocab.size(); ++id) {
      std::string& token = spec.vocab[id];
      // As the ByteLevel decoder has it: a token with a character that is no symbol stands for itself.
      bytes_.push_back(BytesOfSymbols(token).value_or(token));
      if (!token.empty()) ids_.emplace(std::move(token), static_cast<int>(id));
    }
    for (const AddedToken& token : spec.added) special_[static_cast<size_t>(token.id)] = token.special;
  }

  void EncodeText(absl::string_view text, std::vector<int>& ids) const {
    for (const AddedTokens::Piece& piece : added_.Split(text)) {
      if (piece.id.has_value()) {
        ids.push_back(*piece.id);
        continue;
      }
      PreTokenize(piece.text, split_digits_, [this, &ids](absl::string_view token) { bpe_.Encode(token, ids); });
    }
  }

  std::string Decode(absl::Span<const int> ids, bool skip_special_tokens) const {
    std::string bytes;
    for (const int id : ids) {
      if (id < 0 || id >= size() || (skip_special_tokens && IsSpecial(id))) continue;
      bytes += bytes_[static_cast<size_t>(id)];
    }
    return LossyUtf8(bytes);
  }

  std::optional<int> Id(absl::string_view token) const {
    const auto it = ids_.find(token);
    if (it == ids_.end()) return std::nullopt;
    return it->second;
  }
  bool IsSpecial(int id) const { return id >= 0 && id < size() && special_[static_cast<size_t>(id)]; }
  int size() const { return static_cast<int>(bytes_.size()); }
  const TokenizerConfig& config() const { return config_; }

 private:
  bool split_digits_;
  Bpe bpe_;
  AddedTokens added_;
  TokenizerConfig config_;
  absl::flat_hash_map<std::string, int> ids_;
  std::vector<std::string> bytes_;  // by id: what it decodes to; empty if no token has the id
  std::vector<bool> special_;
};

Tokenizer::Tokenizer() = default;
Tokenizer::~Tokenizer() = default;

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(const std::string& dir) {
  const std::string path = dir + "/tokenizer.json";
  auto text = ReadFile(path);
  if (absl::IsNotFound(text.status())) {
    return absl::NotFoundError(
        absl::StrCat(text.status().message(), "; a model's directory must hold its tokenizer.json"));
  }
  if (!text.ok()) return text.status();
  TANDEM_ASSIGN_OR_RETURN(TokenizerSpec spec, ParseTokenizerJson(*text, path));
  TANDEM_ASSIGN_OR_RETURN(TokenizerConfig config, LoadTokenizerConfig(dir));
  std::unique_ptr<Tokenizer> tokenizer(new Tokenizer());
  tokenizer->impl_ = std::make_unique<Impl>(std::move(spec), std::move(config));
  return tokenizer;
}

std::vector<int> Tokenizer::Encode(absl::string_view text, bool /*add_special_tokens*/) const {
  // None of the post-processors that Load accepts adds tokens.
  std::vector<int> ids;
  if (IsValidUtf8(text)) {
    impl_->EncodeText(text, ids);
  } else {
    impl_->EncodeText(LossyUtf8(text), ids);
  }
  return ids;
}

std::string Tokenizer::Decode(absl::Span<const int> ids, bool skip_special_tokens) const {
  return impl_->Decode(ids, skip_special_tokens);
}

bool Tokenizer::has_chat_template() const {
  return impl_->config().chat_template.has_value();
}

absl::StatusOr<std::string> Tokenizer::RenderChat(absl::Span<const ChatMessage> messages,
                                                  bool add_generation_prompt) const {
  if (!has_chat_template()) {
    return absl::FailedPreconditionError("the model has no chat template; use prompts as text or token ids");
  }
  return RenderTemplate(*impl_->config().chat_template, messages, add_generation_prompt);
}

int Tokenizer::vocab_size() const {
  return impl_->size();
}
std::optional<int> Tokenizer::eos_token_id() const {
  const auto& token = impl_->config().eos_token;
  return token.has_value() ? impl_->Id(*token) : std::nullopt;
}
std::optional<int> Tokenizer::pad_token_id() const {
  const auto& token = impl_->config().pad_token;
  return token.has_value() ? impl_->Id(*token) : std::nullopt;
}
std::optional<int> Tokenizer::TokenId(absl::string_view token) const {
  return impl_->Id(token);
}
bool Tokenizer::IsSpecial(int id) const {
  return impl_->IsSpecial(id);
}

}  // namespace tandem::text
