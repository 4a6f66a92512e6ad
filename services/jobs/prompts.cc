#include "services/jobs/prompts.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "services/rewards/cell_text.h"

namespace tandem::jobs {
namespace {

using text::ChatMessage;
using text::Tokenizer;

// A prompt or completion as the row has it: text, or messages.
struct Cell {
  std::string text;
  std::vector<ChatMessage> messages;
  bool is_chat = false;
};

absl::StatusOr<std::vector<ChatMessage>> ParseMessages(const nlohmann::json& list) {
  if (list.empty()) return absl::InvalidArgumentError("is an empty list of messages");
  std::vector<ChatMessage> messages;
  for (const nlohmann::json& message : list) {
    const bool complete = message.is_object() && message.contains("role") && message.contains("content") &&
                          message["role"].is_string() && message["content"].is_string();
    if (!complete) {
      return absl::InvalidArgumentError("has a message that is not like {\"role\": \"user\", \"content\": \"text\"}");
    }
    messages.push_back({.role = message["role"], .content = message["content"]});
  }
  return messages;
}

absl::StatusOr<Cell> ParseCell(const nlohmann::json& json) {
  Cell cell;
  if (json.is_array()) {
    cell.is_chat = true;
    TANDEM_ASSIGN_OR_RETURN(cell.messages, ParseMessages(json));
  } else {
    TANDEM_ASSIGN_OR_RETURN(cell.text, rewards::CellText(json));
  }
  return cell;
}

// One loading: the file, how it is to be read, and whether strings become chats.
class Loader {
 public:
  static absl::StatusOr<Loader> Make(const Dataset& dataset, const DatasetSpec& spec, const Tokenizer& tokenizer) {
    if (spec.chat == ChatMode::kAlways && !tokenizer.has_chat_template()) {
      return absl::InvalidArgumentError("dataset.chat: is always, but the model has no chat template; use auto");
    }
    const bool chat = spec.chat != ChatMode::kNever && tokenizer.has_chat_template();
    if (!chat && !spec.system_prompt.empty()) {
      return absl::InvalidArgumentError(
          "dataset.system_prompt: needs a chat, but the model has no chat template; write it into the prompts");
    }
    TANDEM_RETURN_IF_ERROR(RequireColumn(dataset, spec.prompt_column));
    return Loader(dataset, spec, tokenizer, chat);
  }

  // An error of a row: file, line, column, reason.
  absl::Status RowError(const DatasetRow& row, absl::string_view column, absl::string_view reason) const {
    return absl::InvalidArgumentError(absl::StrCat(dataset_.path, ":", row.line, ": column '", column, "' ", reason));
  }

  absl::StatusOr<Cell> Read(const DatasetRow& row, const std::string& column) const {
    absl::StatusOr<Cell> cell = ParseCell(row.json.at(column));
    if (!cell.ok()) return RowError(row, column, cell.status().message());
    return cell;
  }

  // The prompt as a conversation; nullopt if it is plain text.
  absl::StatusOr<std::optional<std::vector<ChatMessage>>> Conversation(const DatasetRow& row,
                                                                       const Cell& prompt) const {
    if (!prompt.is_chat && !chat_) return std::nullopt;
    if (!tokenizer_.has_chat_template()) {
      return RowError(row, spec_.prompt_column, "is a list of messages, but the model has no chat template");
    }
    std::vector<ChatMessage> messages = prompt.messages;
    if (!prompt.is_chat) messages.push_back({.role = "user", .content = prompt.text});
    if (!spec_.system_prompt.empty() && messages.front().role != "system") {
      messages.insert(messages.begin(), {.role = "system", .content = spec_.system_prompt});
    }
    return std::optional(std::move(messages));
  }

  absl::StatusOr<std::string> Render(const DatasetRow& row, const std::vector<ChatMessage>& messages,
                                     bool add_generation_prompt) const {
    absl::StatusOr<std::string> rendered = tokenizer_.RenderChat(messages, add_generation_prompt);
    if (!rendered.ok()) return RowError(row, spec_.prompt_column, rendered.status().message());
    return rendered;
  }

  absl::StatusOr<Prompt> MakePrompt(int64_t index) const {
    const DatasetRow& row = dataset_.rows[index];
    TANDEM_ASSIGN_OR_RETURN(const Cell cell, Read(row, spec_.prompt_column));
    TANDEM_ASSIGN_OR_RETURN(const auto conversation, Conversation(row, cell));
    Prompt prompt{.row = index, .text = cell.text, .ids = {}};
    if (conversation) {
      TANDEM_ASSIGN_OR_RETURN(prompt.text, Render(row, *conversation, /*add_generation_prompt=*/true));
    }
    prompt.ids = tokenizer_.Encode(prompt.text, /*add_special_tokens=*/!conversation);
    if (prompt.ids.empty()) return RowError(row, spec_.prompt_column, "is empty: there is no token to continue");
    return prompt;
  }

  absl::StatusOr<SftRow> MakeSftRow(int64_t index) const {
    const DatasetRow& row = dataset_.rows[index];
    TANDEM_ASSIGN_OR_RETURN(const Prompt prompt, MakePrompt(index));
    TANDEM_ASSIGN_OR_RETURN(const Cell completion, Read(row, spec_.completion_column));
    TANDEM_ASSIGN_OR_RETURN(const Cell cell, Read(row, spec_.prompt_column));
    TANDEM_ASSIGN_OR_RETURN(auto conversation, Conversation(row, cell));
    SftRow sft{.row = index, .ids = {}, .completion_start = 0};
    if (conversation) {
      if (completion.is_chat) {
        conversation->insert(conversation->end(), completion.messages.begin(), completion.messages.end());
      } else {
        conversation->push_back({.role = "assistant", .content = completion.text});
      }
      TANDEM_ASSIGN_OR_RETURN(const std::string whole, Render(row, *conversation, /*add_generation_prompt=*/false));
      sft.ids = tokenizer_.Encode(whole, /*add_special_tokens=*/false);
    } else {
      if (completion.is_chat)
        return RowError(row, spec_.completion_column, "is a list of messages, but the prompt is text");
      sft.ids = tokenizer_.Encode(absl::StrCat(prompt.text, completion.text), /*add_special_tokens=*/true);
      if (!tokenizer_.eos_token_id())
        return absl::InvalidArgumentError("the tokenizer names no eos_token to end completions with");
      if (sft.ids.empty() || sft.ids.back() != *tokenizer_.eos_token_id())
        sft.ids.push_back(*tokenizer_.eos_token_id());
    }
    const auto common = std::mismatch(prompt.ids.begin(), prompt.ids.end(), sft.ids.begin(), sft.ids.end());
    // The first token of a sequence has nothing to be predicted from.
    sft.completion_start = std::max<int64_t>(common.second - sft.ids.begin(), 1);
    if (sft.completion_start >= static_cast<int64_t>(sft.ids.size())) {
      return RowError(row, spec_.completion_column, "is empty: there is no token to train");
    }
    return sft;
  }

 private:
  Loader(const Dataset& dataset, const DatasetSpec& spec, const Tokenizer& tokenizer, bool chat)
      : dataset_(dataset), spec_(spec), tokenizer_(tokenizer), chat_(chat) {}

  const Dataset& dataset_;
  const DatasetSpec& spec_;
  const Tokenizer& tokenizer_;
  const bool chat_;
};

// Rows that do not fit, for one error about all of them.
class TooLong {
 public:
  void Add(int64_t line) {
    ++count_;
    if (lines_.size() < 10) lines_.push_back(line);
  }

  absl::Status Check(const std::string& path, absl::string_view limit) const {
    if (count_ == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", count_, count_ == 1 ? " row is" : " rows are", " too long: ", limit, "; line",
                     count_ == 1 ? " " : "s ", absl::StrJoin(lines_, ", "),
                     count_ > static_cast<int64_t>(lines_.size()) ? ", ..." : "",
                     ". Shorten them or set dataset.max_prompt_length to leave them out"));
  }

 private:
  int64_t count_ = 0;
  std::vector<int64_t> lines_;
};

// Whether dataset.max_prompt_length leaves a prompt of this many tokens out.
bool IsFiltered(const DatasetSpec& spec, int64_t prompt_tokens) {
  return spec.max_prompt_length && prompt_tokens > *spec.max_prompt_length;
}

// `rows` unless none is left.
template <typename T>
absl::StatusOr<std::vector<T>> NotEmpty(std::vector<T> rows, const Dataset& dataset, const DatasetSpec& spec) {
  if (!rows.empty()) return rows;
  return absl::InvalidArgumentError(absl::StrCat("dataset.max_prompt_length: ", spec.max_prompt_length.value_or(0),
                                                 " leaves no row of ", dataset.path, "; raise it"));
}

}  // namespace

absl::StatusOr<std::vector<Prompt>> MakePrompts(const Dataset& dataset, const DatasetSpec& spec,
                                                const Tokenizer& tokenizer, int64_t context,
                                                int64_t max_completion_length) {
  if (max_completion_length >= context) {
    return absl::InvalidArgumentError(absl::StrCat("max_completion_length: is ", max_completion_length,
                                                   ", but the model's context has ", context, " tokens; lower it"));
  }
  TANDEM_ASSIGN_OR_RETURN(const Loader loader, Loader::Make(dataset, spec, tokenizer));
  std::vector<Prompt> prompts;
  TooLong too_long;
  for (size_t i = 0; i < dataset.rows.size(); ++i) {
    TANDEM_ASSIGN_OR_RETURN(Prompt prompt, loader.MakePrompt(static_cast<int64_t>(i)));
    const auto tokens = static_cast<int64_t>(prompt.ids.size());
    if (IsFiltered(spec, tokens)) continue;
    if (tokens + max_completion_length > context) too_long.Add(dataset.rows[i].line);
    prompts.push_back(std::move(prompt));
  }
  TANDEM_RETURN_IF_ERROR(too_long.Check(
      dataset.path, absl::StrCat("a prompt may have ", context - max_completion_length, " tokens (context ", context,
                                 " less max_completion_length ", max_completion_length, ")")));
  return NotEmpty(std::move(prompts), dataset, spec);
}

absl::StatusOr<std::vector<SftRow>> MakeSftRows(const Dataset& dataset, const DatasetSpec& spec,
                                                const Tokenizer& tokenizer, int64_t context) {
  TANDEM_ASSIGN_OR_RETURN(const Loader loader, Loader::Make(dataset, spec, tokenizer));
  TANDEM_RETURN_IF_ERROR(RequireColumn(dataset, spec.completion_column));
  std::vector<SftRow> rows;
  TooLong too_long;
  for (size_t i = 0; i < dataset.rows.size(); ++i) {
    TANDEM_ASSIGN_OR_RETURN(SftRow row, loader.MakeSftRow(static_cast<int64_t>(i)));
    if (IsFiltered(spec, row.completion_start)) continue;
    if (static_cast<int64_t>(row.ids.size()) > context) too_long.Add(dataset.rows[i].line);
    rows.push_back(std::move(row));
  }
  TANDEM_RETURN_IF_ERROR(too_long.Check(
      dataset.path, absl::StrCat("prompt and completion may have ", context, " tokens, the model's context")));
  return NotEmpty(std::move(rows), dataset, spec);
}

}  // namespace tandem::jobs
