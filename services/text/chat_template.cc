#include "services/text/chat_template.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace tandem::text {
namespace {

constexpr absl::string_view kLoop = "{% for message in messages %}";
constexpr absl::string_view kDefaultSystem =
    "{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a helpful AI assistant "
    "named "
    "SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}";
constexpr absl::string_view kMessages =
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

// The text with which templates are compared: a newline inside a Jinja string may be written as backslash and n, and
// Jinja drops one newline at the end of a template.
std::string Comparable(absl::string_view chat_template) {
  std::string text = absl::StrReplaceAll(chat_template, {{"\\n", "\n"}});
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

absl::StatusOr<std::string> RenderTemplate(absl::string_view chat_template, absl::Span<const ChatMessage> messages,
                                           bool add_generation_prompt) {
  const std::string text = Comparable(chat_template);
  const bool smollm = text == absl::StrCat(kLoop, kDefaultSystem, kMessages);
  if (!smollm && text != absl::StrCat(kLoop, kMessages)) {
    return absl::UnimplementedError(absl::StrCat(
        "the chat template \"", absl::Utf8SafeCHexEscape(chat_template.substr(0, 60)),
        "...\" is not supported: only ChatML as SmolLM2 has it is; use prompts as text or token ids (chat: never)"));
  }
  std::string result;
  if (smollm && !messages.empty() && messages[0].role != "system") {
    result = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n";
  }
  for (const ChatMessage& message : messages) {
    absl::StrAppend(&result, "<|im_start|>", message.role, "\n", message.content, "<|im_end|>\n");
  }
  if (add_generation_prompt) absl::StrAppend(&result, "<|im_start|>assistant\n");
  return result;
}

}  // namespace tandem::text
