#include "services/jobs/job_runner.h"

#include <deque>
#include <future>
#include <mutex>

#include "tests/testing/status_matchers.h"
#include "tests/testing/testing.h"

namespace tandem::jobs {
namespace {

using ::tandem::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(20);

// Runs each job by a script: says when it started, then waits to be let go or asked to end.
class ScriptedBody final : public JobBody {
 public:
  explicit ScriptedBody(JobStore& store) : store_(store) {}

  absl::Status Run(const JobRecord& job, const RunControl& control) override {
    EXPECT_THAT(store_.SetState(job.id, JobState::kRunning), IsOk());
    const MutexLock lock(mutex_);
    started_.push_back(job.id);
    changed_.NotifyAll();
    while (outcomes_.empty()) {
      if (absl::Status asked = control.Check(); !asked.ok()) return asked;
      changed_.WaitFor(mutex_, absl::Milliseconds(5));
    }
    absl::Status outcome = outcomes_.front();
    outcomes_.pop_front();
    return outcome;
  }

  void LetOneEndWith(absl::Status outcome) {
    const MutexLock lock(mutex_);
    outcomes_.push_back(std::move(outcome));
    changed_.NotifyAll();
  }
  // Waits until `count` runs have started; returns the jobs in order.
  std::vector<int64_t> WaitStarted(size_t count) {
    const MutexLock lock(mutex_);
    for (int i = 0; i < 2000 && started_.size() < count; ++i) changed_.WaitFor(mutex_, absl::Milliseconds(10));
    return started_;
  }

 private:
  JobStore& store_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<int64_t> started_ ABSL_GUARDED_BY(mutex_);
  std::deque<absl::Status> outcomes_ ABSL_GUARDED_BY(mutex_);
};

class JobRunnerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto store = JobStore::Open(dir_.File("jobs.sqlite"));
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  int64_t Submit(const std::string& name) {
    const auto job = store_->Submit({.name = name,
                                     .task = "sft",
                                     .output_dir = dir_.File(name),
                                     .resolved_yaml = "",
                                     .max_steps = 1,
                                     .idempotency_key = ""});
    EXPECT_TRUE(job.ok()) << job.status();
    return job->id;
  }
  JobRecord WaitState(int64_t id, JobState state) {
    int64_t after = 0;
    while (true) {
      const auto job = store_->Get(id);
      if (!job.ok() || job->state == state) return *job;
      const auto news = store_->WaitForNews(id, after, 0, kPatience);
      if (!news.ok() || news->events.empty()) break;
      after = news->events.back().sequence;
    }
    ADD_FAILURE() << "job " << id << " did not reach " << Name(state);
    return {};
  }

  const testing::TempDir dir_;
  std::unique_ptr<JobStore> store_;
};

TEST_F(JobRunnerTest, JobsRunOneAfterAnotherInOrder) {
  ScriptedBody body(*store_);
  JobRunner runner(*store_, body);
  const int64_t first = Submit("a"), second = Submit("b");
  runner.Start();
  EXPECT_THAT(body.WaitStarted(1), ElementsAre(first));
  EXPECT_EQ(store_->Get(second)->state, JobState::kQueued);
  body.LetOneEndWith(absl::OkStatus());
  WaitState(first, JobState::kSucceeded);
  EXPECT_THAT(body.WaitStarted(2), ElementsAre(first, second));
  body.LetOneEndWith(absl::OkStatus());
  WaitState(second, JobState::kSucceeded);
}

TEST_F(JobRunnerTest, AnErrorFailsTheJobWithItsTextAndTheNextOneRuns) {
  ScriptedBody body(*store_);
  JobRunner runner(*store_, body);
  const int64_t first = Submit("a"), second = Submit("b");
  runner.Start();
  body.WaitStarted(1);
  body.LetOneEndWith(absl::InvalidArgumentError("line 7 is no JSON"));
  EXPECT_THAT(WaitState(first, JobState::kFailed).error, HasSubstr("line 7"));
  EXPECT_THAT(body.WaitStarted(2), ElementsAre(first, second));
  body.LetOneEndWith(absl::OkStatus());
  WaitState(second, JobState::kSucceeded);
}

TEST_F(JobRunnerTest, CancelEndsARunningJobAndAQueuedOne) {
  ScriptedBody body(*store_);
  JobRunner runner(*store_, body);
  const int64_t first = Submit("a"), second = Submit("b");
  runner.Start();
  body.WaitStarted(1);
  EXPECT_THAT(runner.Cancel(second), IsOk());
  EXPECT_EQ(store_->Get(second)->state, JobState::kCancelled);
  EXPECT_THAT(runner.Cancel(first), IsOk());
  WaitState(first, JobState::kCancelled);
  EXPECT_THAT(body.WaitStarted(1), ElementsAre(first));
  EXPECT_THAT(runner.Cancel(first), IsOk());  // an ended one stays as it is
  EXPECT_THAT(runner.Cancel(99).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(JobRunnerTest, StoppedJobIsTakenUpAgainBeforeQueuedOnes) {
  const int64_t waiting_first = Submit("a");
  int64_t later = 0;
  {
    ScriptedBody body(*store_);
    JobRunner runner(*store_, body);
    runner.Start();
    body.WaitStarted(1);
    later = Submit("b");
    runner.Stop();
  }
  EXPECT_EQ(store_->Get(waiting_first)->state, JobState::kRunning);
  store_.reset();
  SetUp();  // a new process
  ScriptedBody body(*store_);
  JobRunner runner(*store_, body);
  runner.Start();
  EXPECT_THAT(body.WaitStarted(1), ElementsAre(waiting_first));
  body.LetOneEndWith(absl::OkStatus());
  EXPECT_THAT(body.WaitStarted(2), ElementsAre(waiting_first, later));
  body.LetOneEndWith(absl::OkStatus());
  WaitState(later, JobState::kSucceeded);
}

// A call that inference gave up looks like a cancel; the job was not asked to end.
TEST_F(JobRunnerTest, CancelledStatusThatNobodyAskedForIsAFailure) {
  ScriptedBody body(*store_);
  JobRunner runner(*store_, body);
  const int64_t job = Submit("a");
  runner.Start();
  body.WaitStarted(1);
  body.LetOneEndWith(absl::AbortedError("somebody else's"));
  EXPECT_THAT(WaitState(job, JobState::kFailed).error, HasSubstr("somebody else's"));
}

}  // namespace
}  // namespace tandem::jobs
