#include "services/trainer/job_checkpoint.h"

#include <filesystem>

#include "common/base/file.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/testing.h"

namespace tandem::trainer {
namespace {

namespace fs = std::filesystem;
using ::tandem::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class JobCheckpointTest : public ::testing::Test {
 protected:
  absl::Status Write(int64_t step, int64_t job_id = 3, bool fail = false) {
    CheckpointWriter writer(dir_.path(), step);
    TANDEM_ASSIGN_OR_RETURN(const std::string tandem_dir, writer.Begin());
    TANDEM_RETURN_IF_ERROR(WriteFileAtomically(tandem_dir + "/moments.safetensors", "moments"));
    return writer.Finish({.job_id = job_id, .step = step, .version = 7, .seed = 1, .learning_rate = 0.5},
                         [&](const std::string& dir) {
                           if (fail) return absl::ResourceExhaustedError("disk full");
                           fs::create_directory(dir);
                           return WriteFileAtomically(dir + "/model.safetensors", "weights");
                         });
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(dir_.path())) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  const testing::TempDir dir_;
};

TEST_F(JobCheckpointTest, TheNewestIsFoundAndFinalPointsToIt) {
  EXPECT_FALSE(FindLastCheckpoint(dir_.path(), 3).has_value());
  ASSERT_THAT(Write(9), IsOk());
  ASSERT_THAT(Write(12), IsOk());
  const auto found = FindLastCheckpoint(dir_.path(), 3);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->path, dir_.File("checkpoint-12"));
  EXPECT_EQ(found->state.step, 12);
  EXPECT_EQ(found->state.version, 7);
  EXPECT_EQ(found->state.learning_rate, 0.5);
  EXPECT_TRUE(fs::exists(found->tandem_dir() + "/moments.safetensors"));
  EXPECT_EQ(fs::read_symlink(dir_.File("final")), "checkpoint-12");
  EXPECT_THAT(Names(), ElementsAre("checkpoint-12", "checkpoint-9", "final"));
}

TEST_F(JobCheckpointTest, AFailedWriteLeavesTheOneBefore) {
  ASSERT_THAT(Write(9), IsOk());
  EXPECT_FALSE(Write(12, 3, /*fail=*/true).ok());
  EXPECT_EQ(FindLastCheckpoint(dir_.path(), 3)->state.step, 9);
  EXPECT_THAT(Names(), ElementsAre("checkpoint-9", "final"));
}

TEST_F(JobCheckpointTest, DamagedAndForeignOnesArePassedOver) {
  ASSERT_THAT(Write(3), IsOk());
  ASSERT_THAT(Write(6, /*job_id=*/8), IsOk());
  ASSERT_THAT(Write(9), IsOk());
  ASSERT_THAT(WriteFileAtomically(dir_.File("checkpoint-9/tandem/state.json"), "{\"step\": 9"), IsOk());
  fs::create_directory(dir_.File("checkpoint-12"));
  EXPECT_EQ(FindLastCheckpoint(dir_.path(), 3)->state.step, 3);
}

TEST_F(JobCheckpointTest, WhatAKilledWriterLeftIsRemoved) {
  fs::create_directories(dir_.File(".tmp-checkpoint-12/tandem"));
  fs::create_directories(dir_.File(".tmp-checkpoint-12.tandem"));
  ASSERT_THAT(Write(9), IsOk());
  RemoveUnfinished(dir_.path());
  EXPECT_THAT(Names(), ElementsAre("checkpoint-9", "final"));
}

TEST_F(JobCheckpointTest, TheOldestGoFirstAndTheNewestNever) {
  for (const int64_t step : {3, 6, 9, 12}) ASSERT_THAT(Write(step), IsOk());
  EXPECT_THAT(PruneCheckpoints(dir_.path(), 0), IsEmpty());
  EXPECT_THAT(PruneCheckpoints(dir_.path(), 2), ElementsAre(3, 6));
  EXPECT_THAT(PruneCheckpoints(dir_.path(), 1), ElementsAre(9));
  EXPECT_THAT(Names(), ElementsAre("checkpoint-12", "final"));
}

}  // namespace
}  // namespace tandem::trainer
