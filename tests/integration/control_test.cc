// Experiments with a known outcome, on the real daemons: true rewards teach, shuffled ones do not, a learning rate of 0
// changes nothing. All start from one warm-up checkpoint and run 40 steps. ctest runs the suite as one test, so that
// they share it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/file.h"
#include "common/base/philox.h"
#include "tests/integration/cluster.h"

namespace tandem::testing {
namespace {

constexpr int kSteps = 40;
constexpr double kLeastGain = 0.08;
constexpr double kMostGainOfShuffled = 0.05;

std::vector<std::string> Lines(const std::string& text) {
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

std::vector<nlohmann::json> ReadLines(const std::string& path) {
  std::vector<nlohmann::json> rows;
  const std::string text = ReadFile(path).value_or("");
  for (const std::string& line : Lines(text)) {
    rows.push_back(nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false));
  }
  return rows;
}

class ControlTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    cluster_ = new Cluster;
    ASSERT_EQ(cluster_->Up().code, 0);
    ASSERT_NO_FATAL_FAILURE(
        cluster_->MakeModel("model", {"--hidden_size=128", "--layers=3", "--heads=8", "--initializer_range=0.05",
                                      "--intermediate_size=512", "--max_position_embeddings=128"}));
    ASSERT_EQ(cluster_->Run({"example", "sums", "--out", cluster_->File("data")}).code, 0);
    WriteShuffledAnswers();
    RunExample("sums_sft", "", "warm-up");
  }
  static void TearDownTestSuite() {
    delete cluster_;
    cluster_ = nullptr;
  }

  // Runs deploy/examples/EXAMPLE.yaml with `changes` (lines "key: value" that replace those of the file) into OUT.
  static void RunExample(const std::string& example, const std::string& changes, const std::string& out) {
    const std::string path = absl::StrCat(TANDEM_SOURCE_DIR, "/deploy/examples/", example, ".yaml");
    std::string yaml;
    const std::string original = ReadFile(path).value_or("");
    const std::string overrides = absl::StrCat("output_dir: ./", out, "\n", changes);
    bool replaced = false;  // lines of a nested map go with their key
    for (const std::string& line : Lines(original)) {
      if (line[0] != ' ') {
        const std::string key = line.substr(0, line.find(':') + 1);
        replaced = absl::StrContains(absl::StrCat("\n", overrides), absl::StrCat("\n", key));
      }
      if (!replaced) absl::StrAppend(&yaml, line, "\n");
    }
    cluster_->Write(out + ".yaml", yaml + overrides);
    const CliResult result =
        cluster_->Start({"submit", cluster_->File(out + ".yaml"), "--follow"})->Wait(absl::Minutes(15));
    ASSERT_EQ(result.code, 0) << result.err << result.out;
    outputs_[out] = result.out;
  }

  static void RunGrpo(const std::string& changes, const std::string& out) {
    RunExample("sums_grpo", absl::StrCat("max_steps: ", kSteps, "\nsave_steps: 0\n", changes), out);
  }

  // Accuracy on the held-out problems before and after a run, as a share.
  static std::pair<double, double> Accuracy(const std::string& out) {
    std::vector<double> values;
    for (const std::string& line : Lines(outputs_[out])) {
      double reward = 0;
      if (std::sscanf(line.c_str(), "eval at step %*d: mean reward %lf", &reward) == 1) values.push_back(reward);
    }
    EXPECT_GE(values.size(), 2U) << outputs_[out];
    return values.size() < 2 ? std::pair(0.0, 0.0) : std::pair(values.front(), values.back());
  }

  // data/shuffled.jsonl: the training prompts, each with the answer of another one.
  static void WriteShuffledAnswers() {
    std::vector<nlohmann::json> rows = ReadLines(cluster_->File("data/train.jsonl"));
    ASSERT_GT(rows.size(), 1000U);
    std::ostringstream text;
    const std::vector<int64_t> order = PhiloxPermutation(static_cast<int64_t>(rows.size()), 5, 0);
    for (size_t i = 0; i < rows.size(); ++i) {
      nlohmann::json row = rows[i];
      row["answer"] = rows[static_cast<size_t>(order[i])]["answer"];
      text << row.dump() << "\n";
    }
    cluster_->Write("data/shuffled.jsonl", text.str());
  }

  static Cluster* cluster_;
  static std::map<std::string, std::string> outputs_;  // of each run
};

Cluster* ControlTest::cluster_ = nullptr;
std::map<std::string, std::string> ControlTest::outputs_;

TEST_F(ControlTest, TrueRewardsTeach) {
  ASSERT_NO_FATAL_FAILURE(RunGrpo("", "true"));
  const auto [before, after] = Accuracy("true");
  std::cout << "true rewards: " << before << " -> " << after << "\n";
  EXPECT_GE(after - before, kLeastGain);
}

TEST_F(ControlTest, ShuffledAnswersDoNotTeach) {
  ASSERT_NO_FATAL_FAILURE(RunGrpo("dataset: {path: ./data/shuffled.jsonl, chat: never}\n", "shuffled"));
  const auto [before, after] = Accuracy("shuffled");
  std::cout << "shuffled answers: " << before << " -> " << after << "\n";
  EXPECT_LT(after - before, kMostGainOfShuffled);
}

TEST_F(ControlTest, ALearningRateOfZeroChangesNoBitWhileRewardsAndGradientsAreThere) {
  ASSERT_NO_FATAL_FAILURE(RunGrpo("learning_rate: 0.0\n", "still"));
  const std::string name = "/final/model.safetensors";
  const std::string before = cluster_->Read("warm-up" + name);
  ASSERT_FALSE(before.empty());
  EXPECT_TRUE(before == cluster_->Read("still" + name)) << "weights differ";
  double rewards = 0;
  int steps = 0;
  for (const nlohmann::json& line : ReadLines(cluster_->File("still/metrics.jsonl"))) {
    if (!line.contains("grad_norm")) continue;  // the evaluations
    ++steps;
    EXPECT_GT(line["grad_norm"].get<double>(), 0) << line;
    rewards += line["reward"].get<double>();
  }
  EXPECT_EQ(steps, kSteps);
  EXPECT_GT(rewards, 0);
}

}  // namespace
}  // namespace tandem::testing
