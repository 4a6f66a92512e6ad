// Greedy tokens of the engine's steps against transformers on the same directories.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/inference/generator_run.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/testing.h"

namespace tandem::inference {
namespace {

using ::tandem::testing::GeneratorRun;
using ::tandem::testing::IsOk;
using ::tandem::testing::RecordingSink;
using ::tandem::testing::TestData;

nlohmann::json ReadJson(const std::string& path) {
  std::ifstream in(path);
  return nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
}

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// All cases at once, one batch: {"prompt" or "ids": [...], "tokens": [...]}; end tokens do not stop.
void ExpectGreedy(const std::string& model_dir, const nlohmann::json& cases, const std::string& prompt_key) {
  ASSERT_TRUE(cases.is_array() && !cases.empty());
  GeneratorRun run(model_dir, {.kv_blocks = 200, .max_batch = 16, .prefill_tokens = 48});
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (const auto& item : cases) {
    Request request;
    request.prompts = {item.at(prompt_key).get<std::vector<int>>()};
    request.sampling = {.temperature = 0, .max_tokens = static_cast<int>(item.at("tokens").size())};
    sinks.push_back(run.Add(request));
  }
  run.RunAll();
  for (size_t i = 0; i < sinks.size(); ++i) {
    ASSERT_THAT(sinks[i]->done.value(), IsOk());
    EXPECT_EQ(sinks[i]->tokens.at(0), cases[i].at("tokens").get<std::vector<int>>()) << "case " << i;
  }
}

TEST(GreedyReferenceTest, TheCommittedModelGivesTheTokensOfTransformers) {
  ExpectGreedy(TestData("transformer/tiny-untied"),
               ReadJson(TestData("transformer/tiny-untied-reference.json"))["greedy"], "prompt");
}

TEST(GreedyReferenceTest, LlamaTiedGivesTheTokensOfTransformers) {
  const std::string oracle = Variable("TANDEM_ORACLE_DIR");
  if (oracle.empty()) GTEST_SKIP() << "TANDEM_ORACLE_DIR is not set";
  ExpectGreedy(oracle + "/models/llama-tied", ReadJson(oracle + "/reference/llama-tied.json")["greedy"], "prompt");
}

TEST(GreedyReferenceTest, SmolLm2ChatsGiveTheTokensOfTransformers) {
  const std::string oracle = Variable("TANDEM_ORACLE_DIR");
  const std::string model = Variable("TANDEM_SMOLLM2_DIR");
  if (oracle.empty() || model.empty()) GTEST_SKIP() << "TANDEM_ORACLE_DIR or TANDEM_SMOLLM2_DIR is not set";
  ExpectGreedy(model, ReadJson(oracle + "/smollm2.json")["chats"], "ids");
}

}  // namespace
}  // namespace tandem::inference
