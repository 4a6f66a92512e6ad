#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/base/file.h"
#include "common/base/philox.h"
#include "services/jobs/completions_log.h"
#include "services/jobs/metrics_log.h"
#include "services/jobs/output_dir.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/testing.h"

namespace tandem::jobs {
namespace {

using ::tandem::testing::IsOk;
using ::tandem::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int64_t> Steps(const std::vector<MetricsLine>& lines) {
  std::vector<int64_t> steps;
  for (const MetricsLine& line : lines) steps.push_back(line.step);
  return steps;
}

TEST(MetricsLog, LinesComeBackWithTheSameBits) {
  const tandem::testing::TempDir dir;
  const std::string path = dir.File("metrics.jsonl");
  ASSERT_THAT(AppendMetrics(path, {1, {{"loss", 0.1}, {"rewards/numeric_match/mean", 1.0 / 3}}}), IsOk());
  ASSERT_THAT(AppendMetrics(path, {2, {{"loss", std::nan("")}}}), IsOk());
  ASSERT_OK_AND_ASSIGN(const std::vector<MetricsLine> lines, ReadMetrics(path));
  ASSERT_THAT(Steps(lines), ElementsAre(1, 2));
  EXPECT_EQ(lines[0].metrics.at("loss"), 0.1);
  EXPECT_EQ(lines[0].metrics.at("rewards/numeric_match/mean"), 1.0 / 3);
  EXPECT_TRUE(std::isnan(lines[1].metrics.at("loss")));
  EXPECT_THAT(*ReadFile(path), ::testing::StartsWith("{\"step\":1,\"loss\":0.1,"));
}

TEST(MetricsLog, TruncationDropsLaterAndTornLines) {
  const tandem::testing::TempDir dir;
  const std::string path = dir.File("metrics.jsonl");
  for (int64_t step = 1; step <= 5; ++step) ASSERT_THAT(AppendMetrics(path, {step, {{"loss", 1.0}}}), IsOk());
  std::ofstream(path, std::ios::app) << "{\"step\":6,\"lo";
  ASSERT_THAT(TruncateMetrics(path, 3), IsOk());
  ASSERT_THAT(AppendMetrics(path, {4, {}}), IsOk());
  EXPECT_THAT(Steps(*ReadMetrics(path)), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(TruncateMetrics(dir.File("none"), 3), IsOk());
  EXPECT_FALSE(std::filesystem::exists(dir.File("none")));
  EXPECT_THAT(ReadMetrics(dir.File("none")), StatusIs(absl::StatusCode::kNotFound, HasSubstr("none")));
}

CompletionRow SampleRow(int64_t step) {
  CompletionRow row{.step = step,
                    .generation_batch = 3,
                    .iteration = 1,
                    .micro_batch = 2,
                    .place = 7,
                    .prompt_row = 99,
                    .group = 1,
                    .sample = 5,
                    .seed = 0xFFFFFFFFFFFFFFFFu,
                    .version = (uint64_t{7} << 32) + 1,
                    .num_items_in_batch = 1234,
                    .truncated = true,
                    .learning_rate = 1e-6,
                    .advantage = -0.7071067811865475,
                    .reward = 1.0 / 3,
                    .rewards = {{"numeric_match", 1.0}, {"other", std::nullopt}},
                    .prompt = "a \"quoted\"\nline é",
                    .prompt_ids = {1, 2, 3},
                    .completion = "bad \xFF byte",
                    .completion_ids = {49151, 0},
                    .logprobs = {},
                    .old_logprobs = {}};
  // Random bit patterns of ordinary floats.
  for (uint64_t i = 0; i < 5000; ++i) {
    const auto value = std::bit_cast<float>(Philox(1, i)[0]);
    if (std::isfinite(value)) row.logprobs.push_back(value);
  }
  return row;
}

TEST(CompletionsLog, RowsComeBackWithTheSameBits) {
  const tandem::testing::TempDir dir;
  CompletionRow row = SampleRow(12);
  row.old_logprobs = {-0.0F, -1.17549435e-38F, -3.4e38F};
  ASSERT_THAT(WriteCompletions(dir.path(), 12, {row, SampleRow(12)}), IsOk());
  const std::string path = dir.File("completions/step-000012.jsonl");
  EXPECT_EQ(CompletionsPath(dir.path(), 12), path);
  ASSERT_OK_AND_ASSIGN(const std::vector<CompletionRow> rows, ReadCompletions(path));
  ASSERT_EQ(rows.size(), 2);
  const CompletionRow& read = rows[0];
  EXPECT_EQ(read.logprobs, row.logprobs);
  EXPECT_EQ(read.old_logprobs, row.old_logprobs);
  EXPECT_TRUE(std::signbit(read.old_logprobs[0]));
  EXPECT_EQ(read.step, 12);
  EXPECT_EQ(read.generation_batch, 3);
  EXPECT_EQ(read.iteration, 1);
  EXPECT_EQ(read.micro_batch, 2);
  EXPECT_EQ(read.place, 7);
  EXPECT_EQ(read.prompt_row, 99);
  EXPECT_EQ(read.group, 1);
  EXPECT_EQ(read.sample, 5);
  EXPECT_EQ(read.seed, row.seed);
  EXPECT_EQ(read.version, row.version);
  EXPECT_EQ(read.num_items_in_batch, 1234);
  EXPECT_TRUE(read.truncated);
  EXPECT_EQ(read.learning_rate, 1e-6);
  EXPECT_EQ(read.advantage, row.advantage);
  EXPECT_EQ(read.reward, row.reward);
  EXPECT_EQ(read.rewards, row.rewards);
  EXPECT_EQ(read.prompt, row.prompt);
  EXPECT_EQ(read.prompt_ids, row.prompt_ids);
  EXPECT_EQ(read.completion, "bad \xEF\xBF\xBD byte");
  EXPECT_EQ(read.completion_ids, row.completion_ids);
  EXPECT_TRUE(rows[1].old_logprobs.empty());
}

TEST(CompletionsLog, EveryLineIsPlainJson) {
  const tandem::testing::TempDir dir;
  CompletionRow row = SampleRow(1);
  row.reward = std::nan("");
  ASSERT_THAT(WriteCompletions(dir.path(), 1, {row}), IsOk());
  const nlohmann::json line = nlohmann::json::parse(*ReadFile(CompletionsPath(dir.path(), 1)));
  EXPECT_TRUE(line["reward"].is_null());
  EXPECT_TRUE(line["old_logprobs"].is_null());
  EXPECT_TRUE(line["rewards"]["other"].is_null());
  EXPECT_EQ(line["seed"].get<uint64_t>(), row.seed);
}

TEST(CompletionsLog, TruncationRemovesLaterSteps) {
  const tandem::testing::TempDir dir;
  EXPECT_THAT(TruncateCompletions(dir.path(), 0), IsOk());
  for (int64_t step = 1; step <= 4; ++step) ASSERT_THAT(WriteCompletions(dir.path(), step, {SampleRow(step)}), IsOk());
  std::ofstream(dir.File("completions/notes.txt")) << "mine";
  ASSERT_THAT(TruncateCompletions(dir.path(), 2), IsOk());
  EXPECT_TRUE(std::filesystem::exists(CompletionsPath(dir.path(), 2)));
  EXPECT_FALSE(std::filesystem::exists(CompletionsPath(dir.path(), 3)));
  EXPECT_FALSE(std::filesystem::exists(CompletionsPath(dir.path(), 4)));
  EXPECT_TRUE(std::filesystem::exists(dir.File("completions/notes.txt")));
}

TEST(CompletionsLog, DamagedFileIsAnError) {
  const tandem::testing::TempDir dir;
  std::ofstream(dir.File("x.jsonl")) << "{\"step\": 1}\n";
  EXPECT_THAT(ReadCompletions(dir.File("x.jsonl")), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("row 1")));
}

TEST(OutputDir, BelongsToOneJob) {
  const tandem::testing::TempDir dir;
  const std::string output = dir.File("runs/a");
  ASSERT_THAT(ClaimOutputDir(output, "task: grpo\n"), IsOk());
  EXPECT_EQ(*ReadFile(output + "/job.yaml"), "task: grpo\n");
  EXPECT_THAT(ClaimOutputDir(output, "task: sft\n"),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("holds another job")));
  EXPECT_EQ(*ReadFile(output + "/job.yaml"), "task: grpo\n");
  ReleaseOutputDir(output);
  EXPECT_FALSE(std::filesystem::exists(output));
  ASSERT_THAT(ClaimOutputDir(output, "task: sft\n"), IsOk());
  std::ofstream(output + "/mine") << "x";
  ReleaseOutputDir(output);
  EXPECT_TRUE(std::filesystem::exists(output + "/mine"));
}

TEST(OutputDir, AFileInTheWayIsAnError) {
  const tandem::testing::TempDir dir;
  std::ofstream(dir.File("file")) << "x";
  EXPECT_THAT(ClaimOutputDir(dir.File("file/a"), "x"), ::testing::Not(IsOk()));
}

}  // namespace
}  // namespace tandem::jobs
