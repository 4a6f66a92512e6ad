#include "services/jobs/job_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/testing.h"

namespace tandem::jobs {
namespace {

using ::tandem::testing::IsOk;
using ::tandem::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

NewJob Job(const std::string& name, const std::string& key = "") {
  return {.name = name,
          .task = "grpo",
          .output_dir = "/out/" + name,
          .resolved_yaml = "task: grpo\n",
          .max_steps = 100,
          .idempotency_key = key};
}

class JobStoreTest : public ::testing::Test {
 protected:
  void SetUp() override { Reopen(); }
  void Reopen() {
    store_.reset();
    auto store = JobStore::Open(path_);
    ASSERT_THAT(store, IsOk());
    store_ = *std::move(store);
  }
  int64_t Submit(const std::string& name) { return store_->Submit(Job(name))->id; }
  int64_t SubmitRunning(const std::string& name) {
    const int64_t id = Submit(name);
    EXPECT_THAT(store_->SetState(id, JobState::kLoading), IsOk());
    EXPECT_THAT(store_->SetState(id, JobState::kRunning), IsOk());
    return id;
  }

  tandem::testing::TempDir dir_;
  const std::string path_ = dir_.File("jobs.db");
  std::unique_ptr<JobStore> store_;
};

TEST_F(JobStoreTest, JobsSurviveAReopen) {
  const int64_t id = SubmitRunning("a");
  JobSummary summary;
  summary.generation_seconds = 1.5;
  summary.turns = 7;
  summary.bytes_moved = uint64_t{1} << 40;
  summary.checkpoint = "c";
  ASSERT_THAT(store_->RecordStep(id, {.step = 3, .max_steps = 100, .metrics = {{"loss", 0.25}}, .version = 9}, summary),
              IsOk());
  ASSERT_THAT(store_->RecordCheckpoint(id, {.step = 3, .path = "/out/a/checkpoint-3"}), IsOk());
  Reopen();
  ASSERT_OK_AND_ASSIGN(const JobRecord job, store_->Get(id));
  EXPECT_EQ(job.name, "a");
  EXPECT_EQ(job.task, "grpo");
  EXPECT_EQ(job.output_dir, "/out/a");
  EXPECT_EQ(job.resolved_yaml, "task: grpo\n");
  EXPECT_EQ(job.max_steps, 100);
  EXPECT_EQ(job.state, JobState::kRunning);
  EXPECT_EQ(job.step, 3);
  EXPECT_GT(job.submitted_at, 1e9);
  EXPECT_GE(job.started_at, job.submitted_at);
  EXPECT_EQ(job.ended_at, 0);
  EXPECT_THAT(job.metrics, ElementsAre(Pair("loss", 0.25)));
  EXPECT_EQ(job.summary, summary);
  ASSERT_OK_AND_ASSIGN(const auto checkpoints, store_->Checkpoints(id));
  ASSERT_EQ(checkpoints.size(), 1);
  EXPECT_EQ(checkpoints[0].path, "/out/a/checkpoint-3");
  ASSERT_THAT(store_->ForgetCheckpoint(id, 3), IsOk());
  EXPECT_THAT(*store_->Checkpoints(id), IsEmpty());
}

TEST_F(JobStoreTest, QueueIsFirstInFirstOutAndTheUnfinishedJobIsFound) {
  EXPECT_EQ(*store_->NextQueued(), std::nullopt);
  const int64_t a = Submit("a");
  const int64_t b = Submit("b");
  EXPECT_EQ((*store_->NextQueued())->id, a);
  EXPECT_FALSE((*store_->Unfinished()).has_value());
  ASSERT_THAT(store_->SetState(a, JobState::kLoading), IsOk());
  Reopen();
  EXPECT_EQ((*store_->Unfinished())->id, a);
  EXPECT_EQ((*store_->NextQueued())->id, b);
  std::vector<int64_t> ids;
  ASSERT_OK_AND_ASSIGN(const std::vector<JobRecord> jobs, store_->List(100));
  for (const JobRecord& job : jobs) ids.push_back(job.id);
  EXPECT_THAT(ids, ElementsAre(b, a));
  EXPECT_EQ(store_->List(1)->size(), 1);
}

TEST_F(JobStoreTest, OnlyLegalStateChangesHappen) {
  using S = JobState;
  const std::vector<S> all = {S::kQueued, S::kLoading, S::kRunning, S::kSucceeded, S::kFailed, S::kCancelled};
  const std::map<S, std::vector<S>> legal = {{S::kQueued, {S::kLoading, S::kFailed, S::kCancelled}},
                                             {S::kLoading, {S::kLoading, S::kRunning, S::kFailed, S::kCancelled}},
                                             {S::kRunning, {S::kLoading, S::kSucceeded, S::kFailed, S::kCancelled}},
                                             {S::kSucceeded, {}},
                                             {S::kFailed, {}},
                                             {S::kCancelled, {}}};
  const std::map<S, std::vector<S>> way = {{S::kQueued, {}},
                                           {S::kLoading, {S::kLoading}},
                                           {S::kRunning, {S::kLoading, S::kRunning}},
                                           {S::kSucceeded, {S::kLoading, S::kRunning, S::kSucceeded}},
                                           {S::kFailed, {S::kFailed}},
                                           {S::kCancelled, {S::kCancelled}}};
  int count = 0;
  for (const S from : all) {
    for (const S to : all) {
      const int64_t id = Submit(absl::StrCat("job", count++));
      for (const S state : way.at(from)) ASSERT_THAT(store_->SetState(id, state), IsOk());
      const bool ok = ::testing::Value(legal.at(from), ::testing::Contains(to));
      const absl::Status status = store_->SetState(id, to, "why");
      EXPECT_EQ(status.ok(), ok) << Name(from) << " to " << Name(to);
      if (!ok) {
        EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(Name(to))));
        EXPECT_EQ(store_->Get(id)->state, from);
        EXPECT_EQ(store_->EventsAfter(id, 0)->size(), way.at(from).size() + 1);
      }
    }
  }
}

TEST_F(JobStoreTest, SameKeyGivesTheFirstJob) {
  const int64_t first = store_->Submit(Job("a", "key"))->id;
  NewJob again = Job("b", "key");
  EXPECT_EQ(store_->Submit(again)->id, first);
  EXPECT_EQ(store_->Submit(again)->name, "a");
  EXPECT_EQ((*store_->FindByKey("key"))->id, first);
  EXPECT_FALSE((*store_->FindByKey("other")).has_value());
  EXPECT_FALSE((*store_->FindByKey("")).has_value());
  EXPECT_EQ(store_->List(10)->size(), 1);
  EXPECT_THAT(store_->Submit(Job("c", std::string(65, 'x'))),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at most 64")));
}

TEST_F(JobStoreTest, OutputDirBelongsToOneJobUntilItEnds) {
  const int64_t id = Submit("a");
  EXPECT_THAT(store_->Submit(Job("a")),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("/out/a belongs to job 1")));
  ASSERT_THAT(store_->SetState(id, JobState::kFailed, "bad"), IsOk());
  EXPECT_THAT(store_->Submit(Job("a")), IsOk());
}

TEST_F(JobStoreTest, CancelEndsAQueuedJobAndMarksARunningOne) {
  const int64_t queued = Submit("a");
  EXPECT_EQ(store_->RequestCancel(queued)->state, JobState::kCancelled);
  const int64_t running = SubmitRunning("b");
  EXPECT_FALSE(*store_->CancelRequested(running));
  EXPECT_EQ(store_->RequestCancel(running)->state, JobState::kRunning);
  EXPECT_TRUE(*store_->CancelRequested(running));
  ASSERT_THAT(store_->SetState(running, JobState::kCancelled), IsOk());
  ASSERT_OK_AND_ASSIGN(const JobRecord ended, store_->RequestCancel(running));
  EXPECT_EQ(ended.state, JobState::kCancelled);
  EXPECT_GT(ended.ended_at, 0);
  EXPECT_THAT(store_->RequestCancel(77), StatusIs(absl::StatusCode::kNotFound, HasSubstr("no job 77")));
}

TEST_F(JobStoreTest, EventsHaveNumbersFromOneWithoutGaps) {
  const int64_t id = SubmitRunning("a");
  ASSERT_THAT(store_->RecordLog(id, {.level = "warning", .text = "hello"}), IsOk());
  ASSERT_THAT(
      store_->RecordStep(id, {.step = 1, .max_steps = 2, .metrics = {{"loss", std::nan("")}}, .version = 5}, {}),
      IsOk());
  ASSERT_THAT(store_->RecordEval(id, {.step = 1, .rows = 10, .mean_reward = 0.5, .seconds = 2}), IsOk());
  ASSERT_THAT(store_->RecordCheckpoint(id, {.step = 1, .path = "p"}), IsOk());
  ASSERT_THAT(store_->SetState(id, JobState::kFailed, "broke"), IsOk());
  ASSERT_OK_AND_ASSIGN(const std::vector<JobEvent> events, store_->EventsAfter(id, 0));
  ASSERT_EQ(events.size(), 8);
  for (size_t i = 0; i < events.size(); ++i) EXPECT_EQ(events[i].sequence, static_cast<int64_t>(i) + 1);
  EXPECT_EQ(std::get<LogLine>(events[3].event).text, "hello");
  const auto& step = std::get<StepDone>(events[4].event);
  EXPECT_EQ(step.version, 5u);
  EXPECT_TRUE(std::isnan(step.metrics.at("loss")));
  EXPECT_EQ(std::get<EvalDone>(events[5].event).mean_reward, 0.5);
  EXPECT_EQ(std::get<CheckpointWritten>(events[6].event).path, "p");
  EXPECT_EQ(std::get<StateChanged>(events[7].event).error, "broke");
  EXPECT_EQ(store_->EventsAfter(id, 6)->size(), 2);
  EXPECT_EQ(store_->EventsAfter(id, 0, 3)->size(), 3);
  EXPECT_EQ(store_->Get(id)->metrics.at("eval_reward"), 0.5);
  EXPECT_EQ(store_->Get(id)->error, "broke");
  EXPECT_THAT(store_->EventsAfter(99, 0), StatusIs(absl::StatusCode::kNotFound, HasSubstr("no job 99")));
}

TEST_F(JobStoreTest, ResumeForgetsWhatCameAfter) {
  const int64_t id = SubmitRunning("a");
  JobSummary totals;
  totals.optimizer_steps = 5;
  ASSERT_THAT(store_->RecordEval(id, {.step = 0, .rows = 1, .mean_reward = 0.1, .seconds = 1}), IsOk());
  for (int64_t step = 1; step <= 5; ++step) {
    ASSERT_THAT(
        store_->RecordStep(id, {.step = step, .max_steps = 9, .metrics = {{"loss", 1.0 * step}}, .version = 1}, totals),
        IsOk());
  }
  ASSERT_THAT(store_->RecordEval(id, {.step = 5, .rows = 1, .mean_reward = 0.9, .seconds = 1}), IsOk());
  ASSERT_THAT(store_->RecordCheckpoint(id, {.step = 2, .path = "two"}), IsOk());
  ASSERT_THAT(store_->RecordCheckpoint(id, {.step = 4, .path = "four"}), IsOk());
  const size_t events = store_->EventsAfter(id, 0)->size();
  ASSERT_THAT(store_->ResumeFrom(id, 2), IsOk());
  ASSERT_OK_AND_ASSIGN(const JobRecord job, store_->Get(id));
  EXPECT_EQ(job.step, 2);
  EXPECT_EQ(job.resumed_from_step, 2);
  EXPECT_THAT(job.metrics, ElementsAre(Pair("eval_reward", 0.1), Pair("loss", 2.0)));
  EXPECT_EQ(job.summary.optimizer_steps, 5u);
  EXPECT_EQ(store_->Checkpoints(id)->size(), 1);
  EXPECT_EQ(store_->EventsAfter(id, 0)->size(), events);
}

TEST_F(JobStoreTest, WaitersSeeEventsAndProgressOfOtherThreads) {
  const int64_t id = SubmitRunning("a");
  constexpr int64_t kSteps = 200;
  std::thread writer([&] {
    for (int64_t step = 1; step <= kSteps; ++step) {
      store_->SetProgress(id, {.step = step, .phase = "train", .fraction = 0.5, .tokens_per_second = 1});
      EXPECT_THAT(
          store_->RecordStep(id, {.step = step, .max_steps = kSteps, .metrics = {{"loss", 1}}, .version = 1}, {}),
          IsOk());
    }
    EXPECT_THAT(store_->SetState(id, JobState::kSucceeded), IsOk());
  });
  std::thread submitter([&] {
    for (int i = 0; i < 50; ++i) EXPECT_THAT(store_->Submit(Job(absl::StrCat("other", i))), IsOk());
  });
  std::vector<std::thread> watchers;
  for (int w = 0; w < 3; ++w) {
    watchers.emplace_back([&] {
      int64_t after = 0;
      int64_t counter = 0;
      for (bool ended = false; !ended;) {
        const absl::StatusOr<JobNews> news = store_->WaitForNews(id, after, counter, absl::Seconds(20));
        ASSERT_THAT(news, IsOk());
        ASSERT_TRUE(!news->events.empty() || news->progress.has_value()) << "nothing for 20 s";
        EXPECT_GE(news->progress_counter, counter);
        counter = news->progress_counter;
        for (const JobEvent& event : news->events) {
          EXPECT_EQ(event.sequence, after + 1);
          after = event.sequence;
          const auto* state = std::get_if<StateChanged>(&event.event);
          ended |= state != nullptr && HasEnded(state->state);
        }
      }
      EXPECT_EQ(after, kSteps + 4);
    });
  }
  writer.join();
  submitter.join();
  for (std::thread& watcher : watchers) watcher.join();
}

TEST_F(JobStoreTest, WaitsEndAtTheirDeadlineAndWhenStopped) {
  const int64_t id = Submit("a");
  EXPECT_TRUE(store_->WaitForQueued(absl::ZeroDuration()));
  ASSERT_THAT(store_->RequestCancel(id), IsOk());
  EXPECT_FALSE(store_->WaitForQueued(absl::Milliseconds(1)));
  ASSERT_OK_AND_ASSIGN(const JobNews none, store_->WaitForNews(id, 2, 0, absl::Milliseconds(1)));
  EXPECT_THAT(none.events, IsEmpty());
  std::thread stopper([&] { store_->StopWaits(); });
  EXPECT_FALSE(store_->WaitForQueued(absl::Hours(1)));
  EXPECT_THAT(store_->WaitForNews(id, 2, 0, absl::Hours(1)), IsOk());
  stopper.join();
}

TEST_F(JobStoreTest, SecondProcessOnTheSameFileIsRefused) {
  EXPECT_THAT(JobStore::Open(path_), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("another process uses it")));
}

TEST_F(JobStoreTest, DamagedFilesAreRefusedByName) {
  store_.reset();
  const std::string garbage = dir_.File("garbage.db");
  std::ofstream(garbage) << std::string(10'000, 'x');
  EXPECT_THAT(JobStore::Open(garbage), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("garbage.db")));
  EXPECT_THAT(JobStore::Open(dir_.File("no/such/dir.db")),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("no/such/dir.db")));
  // Overwrites the middle of a good database.
  std::fstream(path_, std::ios::in | std::ios::out | std::ios::binary).seekp(4096) << std::string(12'000, '\xAB');
  EXPECT_THAT(JobStore::Open(path_), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("move the file away")));
}

}  // namespace
}  // namespace tandem::jobs
