#include "tests/text/expect_snippet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/status_matchers.h"

namespace tandem::text {
namespace {

using Json = nlohmann::json;

// What the stream gives for each of `ids`, null where it gives nothing.
Json Stream(const Tokenizer& tokenizer, const std::vector<int>& ids, bool skip) {
  Json steps = Json::array();
  DecodeStream stream(tokenizer, skip);
  for (const int id : ids) {
    const std::optional<std::string> text = stream.Step(id);
    steps.push_back(text.has_value() ? Json(*text) : Json());
  }
  return steps;
}

}  // namespace

void ExpectDecodes(const Tokenizer& tokenizer, const Json& decode) {
  const auto ids = decode["ids"].get<std::vector<int>>();
  SCOPED_TRACE(decode["ids"].dump().substr(0, 200));
  EXPECT_EQ(tokenizer.Decode(ids, false), decode["decoded"].get<std::string>());
  EXPECT_EQ(tokenizer.Decode(ids, true), decode["decoded_skip"].get<std::string>());
  if (decode.contains("stream")) {
    EXPECT_EQ(Stream(tokenizer, ids, false), decode["stream"]);
    EXPECT_EQ(Stream(tokenizer, ids, true), decode["stream_skip"]);
  }
}

void ExpectSnippet(const Tokenizer& tokenizer, const Json& snippet) {
  const auto text = snippet["text"].get<std::string>();
  SCOPED_TRACE(snippet["text"].dump().substr(0, 200));
  EXPECT_EQ(tokenizer.Encode(text, false), snippet["ids"].get<std::vector<int>>());
  EXPECT_EQ(tokenizer.Encode(text, true), snippet["ids_special"].get<std::vector<int>>());
  Json decode = snippet;
  decode["ids"] = snippet["ids_special"];
  ExpectDecodes(tokenizer, decode);
}

void ExpectChat(const Tokenizer& tokenizer, const Json& chat) {
  SCOPED_TRACE(chat.dump().substr(0, 200));
  std::vector<ChatMessage> messages;
  for (const Json& message : chat["messages"]) messages.push_back({message["role"], message["content"]});
  ASSERT_OK_AND_ASSIGN(const std::string text, tokenizer.RenderChat(messages, chat["add_generation_prompt"]));
  EXPECT_EQ(text, chat["text"].get<std::string>());
  EXPECT_EQ(tokenizer.Encode(text, false), chat["ids"].get<std::vector<int>>());
}

}  // namespace tandem::text
