// What the CLI says and returns when things are not as they should be, and its whole way with a model and jobs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/cluster.h"

namespace tandem::testing {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(CliTest, WithoutDaemonsEveryCommandSaysHowToStartThem) {
  Cluster cluster;
  cluster.Write("job.yaml", "task: sft\n");
  const std::vector<std::vector<std::string>> commands = {
      {"jobs"},          {"job", "show", "1"}, {"job", "cancel", "1"},
      {"generate", "x"}, {"load", "/m"},       {"submit", cluster.File("job.yaml")}};
  for (const auto& command : commands) {
    const CliResult result = cluster.Run(command);
    EXPECT_EQ(result.code, 3) << command[0];
    EXPECT_THAT(result.err, HasSubstr("tandem up")) << command[0];
    EXPECT_THAT(result.out, IsEmpty()) << command[0];
  }
}

TEST(CliTest, WrongUsageIsExitCode2AndHelpIs0WithExamplesFirst) {
  Cluster cluster;
  EXPECT_EQ(cluster.Run({}).code, 2);
  EXPECT_EQ(cluster.Run({"jobs", "--nonsense"}).code, 2);
  const CliResult unknown = cluster.Run({"nonsense"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("no command 'nonsense'"));
  const CliResult help = cluster.Run({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_LT(help.out.find("Examples:"), help.out.find("Usage:"));
  EXPECT_THAT(help.out, HasSubstr("Exit codes:"));
  const CliResult missing = cluster.Run({"submit", "/nowhere.yaml"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, HasSubstr("/nowhere.yaml"));
}

// A running cluster with a small model, for all tests of the suite in one process.
class CliOnClusterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const CliResult up = cluster_.Up();
    ASSERT_EQ(up.code, 0) << up.err;
    ASSERT_NO_FATAL_FAILURE(cluster_.MakeModel(
        "model", {"--hidden_size=64", "--layers=2", "--heads=2", "--chat", "--intermediate_size=128", "--seed=3"}));
    ASSERT_EQ(cluster_.Run({"example", "sums", "--out", cluster_.File("data")}).code, 0);
  }

  std::string Job(const std::string& name, const std::string& more) {
    const std::string file = name + ".yaml";
    cluster_.Write(
        file, absl::StrCat("name: ", name, "\nmodel_name_or_path: ./model\noutput_dir: ./runs/", name, "\n", more));
    return cluster_.File(file);
  }

  Cluster cluster_;
};

constexpr char kSft[] =
    "task: sft\n"
    "dataset: {path: ./data/train.jsonl, chat: never}\n"
    "per_device_train_batch_size: 16\n"
    "learning_rate: 1.0e-3\n";

constexpr char kGrpo[] =
    "task: grpo\n"
    "dataset: {path: ./data/train.jsonl, chat: never}\n"
    "rewards: [{name: numeric_match, answer_column: answer}]\n"
    "eval: {path: ./data/held_out.jsonl, max_rows: 16}\n"
    "num_generations: 4\n"
    "per_device_train_batch_size: 32\n"
    "max_completion_length: 5\n"
    "max_steps: 4\n";

TEST_F(CliOnClusterTest, AModelIsLoadedAndAnswers) {
  const CliResult load = cluster_.Run({"load", cluster_.File("model")});
  ASSERT_EQ(load.code, 0) << load.err;
  const CliResult generate =
      cluster_.Run({"generate", "1+1=", "--temperature=0", "--max_tokens=4", "--logprobs", "-o", "json"});
  ASSERT_EQ(generate.code, 0) << generate.err;
  const auto json = nlohmann::json::parse(generate.out, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(json.is_object()) << generate.out;
  EXPECT_EQ(json["prompt_token_ids"].size(), 4U);
  EXPECT_EQ(json["completions"][0]["token_ids"].size(), json["completions"][0]["logprobs"].size());
  EXPECT_EQ(
      cluster_.Run({"generate", "-", "--temperature=0", "--max_tokens=4", "--logprobs", "-o", "json"}, "1+1=").out,
      generate.out);

  const CliResult chat = cluster_.Run({"chat", "--temperature=0", "--max_tokens=4"}, "hello\n\nand again\n");
  EXPECT_EQ(chat.code, 0) << chat.err;
  EXPECT_GE(std::count(chat.out.begin(), chat.out.end(), '\n'), 2);

  const CliResult other = cluster_.Run({"generate", "x", "--model", "another"});
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.err, HasSubstr("another"));
  const CliResult range = cluster_.Run({"generate", "x", "--temperature=-1"});
  EXPECT_EQ(range.code, 2);
  EXPECT_THAT(range.err, HasSubstr("temperature"));
  const CliResult nothing = cluster_.Run({"load", cluster_.File("no-model")});
  EXPECT_NE(nothing.code, 0);
  EXPECT_THAT(nothing.err, HasSubstr("no-model"));
}

TEST_F(CliOnClusterTest, JobsRunToTheirEndAndAreListed) {
  const CliResult sft = cluster_.Run({"submit", Job("warm", absl::StrCat(kSft, "max_steps: 6\n")), "--follow"});
  EXPECT_EQ(sft.code, 0) << sft.err << sft.out;
  EXPECT_THAT(sft.out, AllOf(HasSubstr("step 6/6"), HasSubstr("checkpoint")));

  const CliResult grpo = cluster_.Run({"submit", Job("sums", kGrpo), "--follow"});
  EXPECT_EQ(grpo.code, 0) << grpo.err << grpo.out;
  EXPECT_THAT(grpo.out,
              AllOf(HasSubstr("step 4/4"), HasSubstr("reward="), HasSubstr("gap=0\n"), HasSubstr("eval at step 0")));

  EXPECT_THAT(cluster_.Run({"jobs"}).out, AllOf(HasSubstr("warm"), HasSubstr("sums"), HasSubstr("succeeded")));
  const auto show = nlohmann::json::parse(cluster_.Run({"job", "show", "2", "-o", "json"}).out, nullptr, false);
  EXPECT_EQ(show["state"], "JOB_STATE_SUCCEEDED");
  EXPECT_THAT(cluster_.Run({"job", "show", "2"}).out, HasSubstr("num_generations: 4"));
  // The job's last version is served on.
  EXPECT_EQ(cluster_.Run({"generate", "1+1=", "--max_tokens=3"}).code, 0);
}

TEST_F(CliOnClusterTest, CtrlCDetachesAndTheJobGoesOnUntilItIsCancelled) {
  const auto follow = cluster_.Start({"submit", Job("long", absl::StrCat(kSft, "max_steps: 100000\n")), "--follow"});
  ASSERT_TRUE(Eventually([&] { return absl::StrContains(follow->out(), "step 2/"); }, absl::Seconds(60)));
  follow->Signal(SIGINT);
  const CliResult detached = follow->Wait();
  EXPECT_EQ(detached.code, 130);
  EXPECT_THAT(detached.out, EndsWith("\n1\n"));
  EXPECT_THAT(detached.err, HasSubstr("tandem job follow 1"));

  const auto again = cluster_.Start({"job", "follow", "1"});
  ASSERT_TRUE(Eventually([&] { return absl::StrContains(again->out(), "step 3/"); }, absl::Seconds(60)));
  EXPECT_EQ(cluster_.Run({"job", "cancel", "1"}).code, 0);
  EXPECT_EQ(again->Wait().code, 4);
  EXPECT_THAT(cluster_.Run({"jobs"}).out, HasSubstr("cancelled"));
}

TEST_F(CliOnClusterTest, ABadJobFileIsShownByFileAndLine) {
  const std::string file = Job("bad", absl::StrCat(kSft, "learning_rat: 1\n"));
  const CliResult result = cluster_.Run({"submit", file});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr(file + ":8: "), HasSubstr("learning_rate")));
  EXPECT_THAT(result.out, IsEmpty());
  cluster_.Write("broken.yaml", "task: sft\n  bad: [1\n");
  const CliResult broken = cluster_.Run({"submit", cluster_.File("broken.yaml")});
  EXPECT_EQ(broken.code, 2);
  EXPECT_THAT(broken.err, HasSubstr("broken.yaml:2"));
  EXPECT_THAT(cluster_.Run({"jobs"}).err, HasSubstr("no jobs yet"));
}

}  // namespace
}  // namespace tandem::testing
