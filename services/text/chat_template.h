#pragma once
// Conversations as text. Chat templates are Jinja programs, and there is no Jinja here: two templates are known by
// their text, and every other one is refused. Pure; thread-safe.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "services/text/tokenizer.h"

namespace tandem::text {

// Renders `messages` as the template does. UNIMPLEMENTED, with the beginning of the template, unless it is
//   SmolLM2's ChatML, which puts a default system message before a conversation that does not begin with one, or
//   plain ChatML without it.
absl::StatusOr<std::string> RenderTemplate(absl::string_view chat_template, absl::Span<const ChatMessage> messages,
                                           bool add_generation_prompt);

}  // namespace tandem::text
