#include "services/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "common/base/file.h"
#include "nlohmann/json.hpp"
#include "tests/testing/status_matchers.h"
#include "tests/testing/testing.h"
#include "tests/testing/tiny_model.h"
#include "tests/text/expect_snippet.h"

namespace tandem::text {
namespace {

using Json = nlohmann::json;
using ::tandem::testing::IsOk;
using ::tandem::testing::MakeTinyModel;
using ::tandem::testing::StatusIs;
using ::tandem::testing::TempDir;
using ::tandem::testing::TestData;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Json ReadJson(const std::string& path) {
  std::ifstream in(path);
  return Json::parse(in, nullptr, false);
}

// Against what the tokenizers library gave (tests/data/make_text_data.py): with and without Digits, and the tokenizer
// of new models.
class ReferenceTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    std::string dir = TestData("text/" + GetParam());
    if (GetParam() == "byte") {
      dir = temp_.File("model");
      MakeTinyModel(dir, {.chat = true});
    }
    auto tokenizer = Tokenizer::Load(dir);
    ASSERT_THAT(tokenizer, IsOk());
    tokenizer_ = *std::move(tokenizer);
    reference_ = ReadJson(TestData("text/" + GetParam() + ".json"));
    ASSERT_TRUE(reference_.is_object());
  }

  TempDir temp_;
  std::unique_ptr<Tokenizer> tokenizer_;
  Json reference_;
};
INSTANTIATE_TEST_SUITE_P(Tokenizer, ReferenceTest, ::testing::Values("digits", "plain", "byte"),
                         [](const auto& info) { return info.param; });

TEST_P(ReferenceTest, IdsTextAndStreamsAreThoseOfTheTokenizersLibrary) {
  EXPECT_EQ(tokenizer_->vocab_size(), reference_["vocab_size"].get<int>());
  ASSERT_GT(reference_["snippets"].size(), 100U);
  for (const Json& snippet : reference_["snippets"]) ExpectSnippet(*tokenizer_, snippet);
}

TEST_P(ReferenceTest, AnyIdsDecodeAsInTheTokenizersLibrary) {
  ASSERT_EQ(reference_["random_decodes"].size(), 60U);
  for (const Json& decode : reference_["random_decodes"]) ExpectDecodes(*tokenizer_, decode);
}

TEST_P(ReferenceTest, ChatsAreThoseOfTransformers) {
  EXPECT_EQ(tokenizer_->has_chat_template(), GetParam() != "plain");
  EXPECT_EQ(reference_["chats"].size(), GetParam() == "plain" ? 0U : 12U);
  for (const Json& chat : reference_["chats"]) ExpectChat(*tokenizer_, chat);
}

TEST(Tokenizer, EndAndPadTokensComeFromItsConfig) {
  ASSERT_OK_AND_ASSIGN(const auto digits, Tokenizer::Load(TestData("text/digits")));
  EXPECT_EQ(digits->eos_token_id(), 2);
  EXPECT_EQ(digits->pad_token_id(), 2);
  ASSERT_OK_AND_ASSIGN(const auto plain, Tokenizer::Load(TestData("text/plain")));
  EXPECT_EQ(plain->eos_token_id(), 0);
  EXPECT_EQ(plain->pad_token_id(), std::nullopt);
}

TEST(Tokenizer, TokensAreFoundByTheirText) {
  ASSERT_OK_AND_ASSIGN(const auto tokenizer, Tokenizer::Load(TestData("text/digits")));
  EXPECT_EQ(tokenizer->TokenId("<|im_start|>"), 1);
  EXPECT_EQ(tokenizer->TokenId("no such token"), std::nullopt);
  EXPECT_TRUE(tokenizer->IsSpecial(1));
  EXPECT_FALSE(tokenizer->IsSpecial(*tokenizer->TokenId("<|extra|>")));
  EXPECT_FALSE(tokenizer->IsSpecial(-1));
  EXPECT_FALSE(tokenizer->IsSpecial(1 << 30));
}

TEST(Tokenizer, IdsOutsideTheVocabularyAreSkipped) {
  ASSERT_OK_AND_ASSIGN(const auto tokenizer, Tokenizer::Load(TestData("text/digits")));
  const std::vector<int> hi = tokenizer->Encode("hi", false);
  std::vector<int> ids = {-1, 1 << 30, tokenizer->vocab_size()};
  ids.insert(ids.begin() + 1, hi.begin(), hi.end());
  EXPECT_EQ(tokenizer->Decode(ids, false), "hi");
}

TEST(Tokenizer, InvalidUtf8IsReadAsReplacementCharacters) {
  ASSERT_OK_AND_ASSIGN(const auto tokenizer, Tokenizer::Load(TestData("text/plain")));
  EXPECT_EQ(tokenizer->Encode("a\xFF\xE4\xBD z", false), tokenizer->Encode("a\uFFFD\uFFFD z", false));
}

TEST(Tokenizer, LongTextsComeBackWhole) {
  const TempDir temp;
  MakeTinyModel(temp.File("model"));
  ASSERT_OK_AND_ASSIGN(const auto bytes, Tokenizer::Load(temp.File("model")));
  ASSERT_OK_AND_ASSIGN(const auto merged, Tokenizer::Load(TestData("text/plain")));
  std::string mixed;
  while (mixed.size() < 1'000'000) mixed += "The quick brown fox, 12345 \u4F60\u597D!\n\n";
  // Runs without a boundary are one pre-token of a million bytes.
  for (const std::string& text : {mixed, std::string(1'000'000, 'a'), std::string(1'000'000, ' ')}) {
    EXPECT_EQ(bytes->Encode(text, false).size(), text.size());
    const std::vector<int> ids = merged->Encode(text, false);
    EXPECT_LE(ids.size(), text.size());
    EXPECT_TRUE(merged->Decode(ids, false) == text);
  }
}

TEST(DecodeStream, FlushGivesWhatIsHeldBack) {
  const TempDir temp;
  MakeTinyModel(temp.File("model"));
  ASSERT_OK_AND_ASSIGN(const auto tokenizer, Tokenizer::Load(temp.File("model")));
  const std::vector<int> ids = tokenizer->Encode("x\u4F60", false);
  DecodeStream stream(*tokenizer, false);
  EXPECT_EQ(stream.Step(ids[0]), "x");
  EXPECT_EQ(stream.Step(ids[1]), std::nullopt);
  EXPECT_EQ(stream.Step(ids[2]), std::nullopt);
  EXPECT_EQ(stream.Flush(), "\uFFFD");
  EXPECT_EQ(stream.Flush(), "");
}

TEST(DecodeStream, StreamAndFlushTogetherAreTheDecodedText) {
  for (const char* name : {"digits", "plain"}) {
    ASSERT_OK_AND_ASSIGN(const auto tokenizer, Tokenizer::Load(TestData(std::string("text/") + name)));
    const Json reference = ReadJson(TestData(std::string("text/") + name + ".json"));
    ASSERT_EQ(reference["random_decodes"].size(), 60U);
    for (const Json& decode : reference["random_decodes"]) {
      const auto ids = decode["ids"].get<std::vector<int>>();
      DecodeStream stream(*tokenizer, true);
      std::string text;
      for (const int id : ids) text += stream.Step(id).value_or("");
      text += stream.Flush();
      EXPECT_EQ(text, tokenizer->Decode(ids, true)) << decode.dump();
    }
  }
}

// ---- refusals

struct Refusal {
  std::string name;
  std::string pointer;  // into tokenizer.json
  Json value;
  std::string error;
};

class RefusedTokenizer : public ::testing::TestWithParam<Refusal> {};

TEST_P(RefusedTokenizer, NamesTheFileAndTheComponent) {
  const TempDir temp;
  Json json = ReadJson(TestData("text/digits/tokenizer.json"));
  json[Json::json_pointer(GetParam().pointer)] = GetParam().value;
  ASSERT_THAT(WriteFileAtomically(temp.File("tokenizer.json"), json.dump()), IsOk());
  EXPECT_THAT(Tokenizer::Load(temp.path()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(temp.File("tokenizer.json")), HasSubstr(GetParam().error))));
}

const Json kByteLevel = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};

INSTANTIATE_TEST_SUITE_P(
    Tokenizer, RefusedTokenizer,
    ::testing::Values(
        Refusal{"Nfc", "/normalizer", {{"type", "NFC"}}, "normalizer NFC"},
        Refusal{"NormalizerSequence",
                "/normalizer",
                {{"type", "Sequence"}, {"normalizers", {{{"type", "Lowercase"}}}}},
                "normalizer Lowercase"},
        Refusal{"NoPreTokenizer", "/pre_tokenizer", nullptr, "no pre-tokenizer"},
        Refusal{"Whitespace", "/pre_tokenizer", {{"type", "Whitespace"}}, "pre-tokenizer Whitespace"},
        Refusal{"Split",
                "/pre_tokenizer",
                {{"type", "Sequence"}, {"pretokenizers", {{{"type", "Split"}}, kByteLevel}}},
                "pre-tokenizer Split"},
        Refusal{"DigitsTogether", "/pre_tokenizer/pretokenizers/0/individual_digits", false, "individual_digits"},
        Refusal{"PrefixSpace", "/pre_tokenizer/pretokenizers/1/add_prefix_space", true, "add_prefix_space"},
        Refusal{"NoRegex", "/pre_tokenizer/pretokenizers/1/use_regex", false, "use_regex"},
        Refusal{"Template", "/post_processor", {{"type", "TemplateProcessing"}}, "post-processor TemplateProcessing"},
        Refusal{"NoDecoder", "/decoder", nullptr, "no decoder"},
        Refusal{"Metaspace", "/decoder", {{"type", "Metaspace"}}, "decoder Metaspace"},
        Refusal{"WordPiece", "/model/type", "WordPiece", "model WordPiece"},
        Refusal{"NoModel", "/model", nullptr, "model null"},
        Refusal{"IgnoreMerges", "/model/ignore_merges", true, "ignore_merges"},
        Refusal{"Dropout", "/model/dropout", 0.1, "dropout"},
        Refusal{"Prefix", "/model/continuing_subword_prefix", "##", "continuing_subword_prefix"},
        Refusal{"Suffix", "/model/end_of_word_suffix", "</w>", "end_of_word_suffix"},
        Refusal{"UnknownToken", "/model/unk_token", "<|endoftext|>", "unk_token"},
        Refusal{"ByteFallback", "/model/byte_fallback", true, "byte_fallback"},
        Refusal{"VocabList", "/model/vocab", Json::array(), "model.vocab"},
        Refusal{"VocabEmpty", "/model/vocab", Json::object(), "model.vocab"},
        Refusal{"VocabNegative", "/model/vocab/a", -1, "has id -1"},
        Refusal{"VocabHuge", "/model/vocab/a", 1 << 30, "has id 1073741824"},
        Refusal{"VocabText", "/model/vocab/a", "x", "has id \"x\""},
        Refusal{"VocabTwice", "/model/vocab/a", 0, "both have id 0"},
        Refusal{"MergesText", "/model/merges", "a b", "model.merges"},
        Refusal{"MergeOfThree", "/model/merges/0", {"a", "b", "c"}, "not a pair"},
        Refusal{"MergeNumber", "/model/merges/0", 7, "not a pair"},
        Refusal{"MergeOfNumbers", "/model/merges/0", {1, 2}, "not a pair"},
        Refusal{"MergeUnknown", "/model/merges/0", {"a", "nowhere"}, "model.vocab lacks"},
        Refusal{"AddedMap", "/added_tokens", Json::object(), "added_tokens is not a list"},
        Refusal{"AddedEmpty", "/added_tokens/0/content", "", "no content"},
        Refusal{"AddedOtherId", "/added_tokens/0/id", 5, "give it 0"},
        Refusal{"AddedBehindAHole", "/added_tokens/3/id", 345, "give it 338"},
        Refusal{"AddedStrip", "/added_tokens/0/lstrip", true, "lstrip"},
        Refusal{"AddedWord", "/added_tokens/0/single_word", true, "single_word"}),
    [](const auto& info) { return info.param.name; });

TEST(Tokenizer, MissingAndBrokenFilesAreRefused) {
  const TempDir temp;
  EXPECT_THAT(Tokenizer::Load(temp.path()), StatusIs(absl::StatusCode::kNotFound, HasSubstr("tokenizer.json")));
  for (const char* text : {"", "{", "[]", "7", "{}"}) {
    ASSERT_THAT(WriteFileAtomically(temp.File("tokenizer.json"), text), IsOk());
    EXPECT_THAT(Tokenizer::Load(temp.path()),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(temp.File("tokenizer.json"))))
        << text;
  }
  std::filesystem::copy_file(TestData("text/digits/tokenizer.json"), temp.File("tokenizer.json"),
                             std::filesystem::copy_options::overwrite_existing);
  ASSERT_THAT(WriteFileAtomically(temp.File("tokenizer_config.json"), "[1"), IsOk());
  EXPECT_THAT(Tokenizer::Load(temp.path()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("tokenizer_config.json")));
}

TEST(ChatTemplate, AnotherTemplateIsRefusedOnlyWhenItIsUsed) {
  const TempDir temp;
  std::filesystem::copy(TestData("text/digits"), temp.File("m"));
  ASSERT_THAT(WriteFileAtomically(temp.File("m/chat_template.jinja"), "{% for m in messages %}{{ m.content }}"),
              IsOk());
  ASSERT_OK_AND_ASSIGN(const auto tokenizer, Tokenizer::Load(temp.File("m")));
  EXPECT_TRUE(tokenizer->has_chat_template());
  const ChatMessage message = {"user", "hi"};
  EXPECT_THAT(tokenizer->RenderChat({&message, 1}, true),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("{% for m in messages %}{{ m.content }}")));
}

TEST(ChatTemplate, WithoutOneAChatIsRefused) {
  ASSERT_OK_AND_ASSIGN(const auto tokenizer, Tokenizer::Load(TestData("text/plain")));
  const ChatMessage message = {"user", "hi"};
  EXPECT_THAT(tokenizer->RenderChat({&message, 1}, true),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no chat template")));
}

TEST(ChatTemplate, NewlinesMayBeWrittenAsEscapes) {
  const TempDir temp;
  std::filesystem::copy(TestData("text/digits"), temp.File("m"));
  ASSERT_OK_AND_ASSIGN(std::string text, ReadFile(temp.File("m/chat_template.jinja")));
  text.pop_back();
  for (size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n')) text.replace(at, 1, "\\n");
  ASSERT_THAT(WriteFileAtomically(temp.File("m/chat_template.jinja"), text), IsOk());
  ASSERT_OK_AND_ASSIGN(const auto tokenizer, Tokenizer::Load(temp.File("m")));
  const ChatMessage message = {"system", "hi"};
  ASSERT_OK_AND_ASSIGN(const std::string rendered, tokenizer->RenderChat({&message, 1}, true));
  EXPECT_EQ(rendered, "<|im_start|>system\nhi<|im_end|>\n<|im_start|>assistant\n");
}

}  // namespace
}  // namespace tandem::text
