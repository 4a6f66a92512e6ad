// The tokenizers library's own results on its corpus, when TANDEM_ORACLE_DIR names the oracle's output.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "nlohmann/json.hpp"
#include "services/text/tokenizer.h"
#include "tests/testing/status_matchers.h"
#include "tests/text/expect_snippet.h"

namespace tandem::text {
namespace {

using Json = nlohmann::json;

// name of the reference file, directory of the tokenizer
struct Case {
  std::string reference, dir;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  const char* oracle = std::getenv("TANDEM_ORACLE_DIR");
  const char* smollm2 = std::getenv("TANDEM_SMOLLM2_DIR");
  if (oracle == nullptr) return cases;
  const std::string root = std::string(oracle) + "/tokenizers/";
  cases.push_back({root + "gpt2.json", root + "gpt2"});
  if (smollm2 != nullptr) cases.push_back({root + "smollm2.json", smollm2});
  return cases;
}

TEST(OracleTokenizer, SnippetsRandomDecodesAndChatsAreIdentical) {
  const std::vector<Case> cases = Cases();
  if (cases.empty()) GTEST_SKIP() << "TANDEM_ORACLE_DIR is not set";
  for (const Case& c : cases) {
    SCOPED_TRACE(c.dir);
    ASSERT_OK_AND_ASSIGN(const auto tokenizer, Tokenizer::Load(c.dir));
    std::ifstream in(c.reference);
    const Json reference = Json::parse(in, nullptr, false);
    ASSERT_TRUE(reference.is_object());
    EXPECT_EQ(tokenizer->vocab_size(), reference["vocab_size"].get<int>());
    ASSERT_GT(reference["snippets"].size(), 300U);
    for (const Json& snippet : reference["snippets"]) ExpectSnippet(*tokenizer, snippet);
    for (const Json& decode : reference["random_decodes"]) ExpectDecodes(*tokenizer, decode);
    for (const Json& chat : reference["chats"]) ExpectChat(*tokenizer, chat);
  }
}

TEST(OracleTokenizer, OtherFamiliesAreRefusedByTheNameOfTheirComponent) {
  const char* oracle = std::getenv("TANDEM_ORACLE_DIR");
  if (oracle == nullptr) GTEST_SKIP() << "TANDEM_ORACLE_DIR is not set";
  const std::string root = std::string(oracle) + "/tokenizers/";
  EXPECT_THAT(Tokenizer::Load(root + "qwen2"),
              testing::StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("normalizer NFC")));
  EXPECT_THAT(
      Tokenizer::Load(root + "llama3"),
      testing::StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("post-processor TemplateProcessing")));
}

}  // namespace
}  // namespace tandem::text
