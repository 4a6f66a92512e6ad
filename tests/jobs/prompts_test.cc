#include "services/jobs/prompts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/jobs/tiny_tokenizer.h"
#include "tests/testing/status_matchers.h"

namespace tandem::jobs {
namespace {

using nlohmann::json;

using ::tandem::testing::IsOk;
using ::tandem::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

json Message(const char* role, const json& content) {
  return {{"role", role}, {"content", content}};
}

Dataset Rows(const std::vector<json>& rows) {
  Dataset dataset{.path = "d.jsonl", .rows = {}};
  for (const json& row : rows)
    dataset.rows.push_back({.line = 2 * static_cast<int64_t>(dataset.rows.size()) + 1, .json = row});
  return dataset;
}

class PromptsTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::vector<Prompt>> Prompts(const std::vector<json>& rows, const text::Tokenizer& tokenizer,
                                              int64_t context = 1000, int64_t max_completion_length = 10) {
    return MakePrompts(Rows(rows), spec_, tokenizer, context, max_completion_length);
  }
  // The only prompt, readable.
  std::string One(const json& row, const text::Tokenizer& tokenizer) {
    const auto prompts = Prompts({row}, tokenizer);
    EXPECT_THAT(prompts, IsOk());
    return prompts.ok() ? Readable(prompts->front().ids) : "";
  }
  std::string OneSft(const json& row, const text::Tokenizer& tokenizer) {
    const auto rows = MakeSftRows(Rows({row}), spec_, tokenizer, 1000);
    EXPECT_THAT(rows, IsOk());
    if (!rows.ok()) return "";
    const std::vector<int>& ids = rows->front().ids;
    const auto start = ids.begin() + rows->front().completion_start;
    return Readable({ids.begin(), start}) + "|" + Readable({start, ids.end()});
  }

  DatasetSpec spec_;
  const std::unique_ptr<text::Tokenizer> chat_ = MakeTinyTokenizer(true);
  const std::unique_ptr<text::Tokenizer> plain_ = MakeTinyTokenizer(false);
};

TEST_F(PromptsTest, StringIsPlainTextWithoutATemplateAndAChatWithOne) {
  EXPECT_EQ(One({{"prompt", "1+1="}}, *plain_), "1+1=");
  EXPECT_EQ(One({{"prompt", "hi"}}, *chat_),
            "<1>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
            "Face<2>\n<1>user\nhi<2>\n<1>assistant\n");
  spec_.chat = ChatMode::kNever;
  EXPECT_EQ(One({{"prompt", "hi"}}, *chat_), "hi");
}

TEST_F(PromptsTest, SystemPromptStandsFirst) {
  spec_.system_prompt = "be brief";
  EXPECT_EQ(One({{"prompt", "hi"}}, *chat_), "<1>system\nbe brief<2>\n<1>user\nhi<2>\n<1>assistant\n");
  EXPECT_EQ(One({{"prompt", json::array({Message("system", "own"), Message("user", "x")})}}, *chat_),
            "<1>system\nown<2>\n<1>user\nx<2>\n<1>assistant\n");
  EXPECT_THAT(Prompts({json{{"prompt", "hi"}}}, *plain_),
              StatusIs(kInvalid, HasSubstr("dataset.system_prompt: needs a chat")));
}

TEST_F(PromptsTest, TextAndRowAreKept) {
  spec_.prompt_column = "q";
  ASSERT_OK_AND_ASSIGN(const auto prompts, Prompts({{{"q", "a"}}, {{"q", 12}}}, *plain_));
  ASSERT_EQ(prompts.size(), 2);
  EXPECT_EQ(prompts[1].text, "12");
  EXPECT_EQ(prompts[1].row, 1);
}

TEST_F(PromptsTest, BadCellsAreNamedWithFileLineAndColumn) {
  const std::pair<json, const char*> cases[] = {
      {{{"prompt", nullptr}}, "d.jsonl:1: column 'prompt' is null, not text or a number"},
      {{{"prompt", json{{"a", 1}}}}, "d.jsonl:1: column 'prompt' is object"},
      {{{"prompt", json::array()}}, "empty list of messages"},
      {{{"prompt", json::array({"hi"})}}, "has a message that is not like"},
      {{{"prompt", json::array({json{{"role", "user"}}})}}, "has a message that is not like"},
      {{{"prompt", json::array({Message("user", 3)})}}, "has a message that is not like"},
      {{{"question", "q"}}, "d.jsonl:1: no column 'prompt'; the columns are: question"},
  };
  for (const auto& [row, part] : cases) {
    EXPECT_THAT(Prompts({row}, *chat_), StatusIs(kInvalid, HasSubstr(part))) << row;
  }
  EXPECT_THAT(Prompts({json{{"prompt", ""}}}, *plain_), StatusIs(kInvalid, HasSubstr("is empty: there is no token")));
  EXPECT_THAT(Prompts({json{{"prompt", json::array({Message("user", "x")})}}}, *plain_),
              StatusIs(kInvalid, HasSubstr("is a list of messages, but the model has no chat template")));
  spec_.chat = ChatMode::kAlways;
  EXPECT_THAT(Prompts({json{{"prompt", "x"}}}, *plain_), StatusIs(kInvalid, HasSubstr("dataset.chat: is always")));
}

TEST_F(PromptsTest, TooLongPromptsAreRefusedWithLinesAndCountOrLeftOut) {
  const std::vector<json> rows = {
      {{"prompt", "12345"}}, {{"prompt", "123456"}}, {{"prompt", "1"}}, {{"prompt", "1234567"}}};
  EXPECT_THAT(
      Prompts(rows, *plain_, 15, 10),
      StatusIs(kInvalid, AllOf(HasSubstr("d.jsonl: 2 rows are too long: a prompt may have 5 tokens (context 15 less"),
                               HasSubstr("lines 3, 7."))));
  EXPECT_THAT(Prompts(rows, *plain_, 17, 10), IsOk());
  EXPECT_THAT(Prompts(std::vector<json>(30, rows[1]), *plain_, 15, 10),
              StatusIs(kInvalid, AllOf(HasSubstr("30 rows are"), HasSubstr("19, ..."))));
  spec_.max_prompt_length = 5;
  ASSERT_OK_AND_ASSIGN(const auto prompts, Prompts(rows, *plain_, 15, 10));
  ASSERT_EQ(prompts.size(), 2);
  EXPECT_EQ(prompts[1].row, 2);
  spec_.max_prompt_length = 6;  // does not help rows that are within it
  EXPECT_THAT(Prompts(rows, *plain_, 15, 10), StatusIs(kInvalid, HasSubstr("1 row is too long")));
  spec_.max_prompt_length = 1;
  EXPECT_THAT(Prompts({rows[0]}, *plain_, 15, 10), StatusIs(kInvalid, HasSubstr("leaves no row of d.jsonl")));
  EXPECT_THAT(Prompts(rows, *plain_, 15, 15),
              StatusIs(kInvalid, HasSubstr("max_completion_length: is 15, but the model's context has 15")));
}

TEST_F(PromptsTest, SftTextEndsWithTheEndTokenAndTrainsTheCompletion) {
  EXPECT_EQ(OneSft({{"prompt", "1+1="}, {"completion", "2"}}, *plain_), "1+1=|2<2>");
  EXPECT_EQ(OneSft({{"prompt", "1+1="}, {"completion", "2<|im_end|>"}}, *plain_), "1+1=|2<2>");
  EXPECT_EQ(OneSft({{"prompt", "1+1="}, {"completion", 2}}, *plain_), "1+1=|2<2>");
  EXPECT_EQ(OneSft({{"prompt", "1+1="}, {"completion", ""}}, *plain_), "1+1=|<2>");
}

TEST_F(PromptsTest, SftSplitsAtTheCommonTokenPrefix) {
  EXPECT_EQ(OneSft({{"prompt", "1a"}, {"completion", "b"}}, *plain_), "1|{ab}<2>");
  EXPECT_EQ(OneSft({{"prompt", "a"}, {"completion", "b"}}, *plain_), "{ab}|<2>");  // the first token cannot be trained
}

TEST_F(PromptsTest, SftChatTrainsTheAnswer) {
  spec_.system_prompt = "s";
  EXPECT_EQ(OneSft({{"prompt", "hi"}, {"completion", "yo"}}, *chat_),
            "<1>system\ns<2>\n<1>user\nhi<2>\n<1>assistant\n|yo<2>\n");
  const json messages = json::array({Message("user", "hi")});
  const json answer = json::array({Message("assistant", "yo")});
  EXPECT_EQ(OneSft({{"prompt", messages}, {"completion", answer}}, *chat_),
            "<1>system\ns<2>\n<1>user\nhi<2>\n<1>assistant\n|yo<2>\n");
}

TEST_F(PromptsTest, SftErrorsNameTheRow) {
  const auto sft = [&](const json& row, int64_t context = 1000) {
    return MakeSftRows(Rows({row}), spec_, *plain_, context);
  };
  EXPECT_THAT(sft({{"prompt", "a"}}), StatusIs(kInvalid, HasSubstr("d.jsonl:1: no column 'completion'")));
  EXPECT_THAT(sft({{"prompt", "a"}, {"completion", nullptr}}),
              StatusIs(kInvalid, HasSubstr("d.jsonl:1: column 'completion' is null")));
  EXPECT_THAT(sft({{"prompt", "a"}, {"completion", json::array({Message("assistant", "x")})}}),
              StatusIs(kInvalid, HasSubstr("but the prompt is text")));
  EXPECT_THAT(sft({{"prompt", "123"}, {"completion", "45"}}, 6), IsOk());
  EXPECT_THAT(sft({{"prompt", "123"}, {"completion", "45"}}, 5),
              StatusIs(kInvalid, HasSubstr("1 row is too long: prompt and completion may have 5 tokens")));
  spec_.max_prompt_length = 2;
  EXPECT_THAT(sft({{"prompt", "123"}, {"completion", "45"}}, 5), StatusIs(kInvalid, HasSubstr("leaves no row")));
}

}  // namespace
}  // namespace tandem::jobs
