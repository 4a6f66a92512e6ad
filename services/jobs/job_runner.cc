#include "services/jobs/job_runner.h"

#include <optional>
#include <string>

#include "common/base/log.h"
#include "common/base/status.h"

namespace tandem::jobs {
namespace {

constexpr absl::Duration kIdlePeriod = absl::Seconds(1);

}  // namespace

absl::Status RunControl::Check() const {
  if (cancelled_) return absl::CancelledError("the job was cancelled");
  if (stopping_) return absl::AbortedError("the trainer is stopping; the job is taken up again at its next start");
  return absl::OkStatus();
}

JobRunner::JobRunner(JobStore& store, JobBody& body) : store_(store), body_(body) {}

JobRunner::~JobRunner() {
  Stop();
}

void JobRunner::Start() {
  thread_ = std::thread([this] { Loop(); });
}

void JobRunner::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    if (control_ != nullptr) control_->Stop();
  }
  store_.StopWaits();
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<JobRecord> JobRunner::Cancel(int64_t id) {
  TANDEM_ASSIGN_OR_RETURN(JobRecord job, store_.RequestCancel(id));
  const MutexLock lock(mutex_);
  if (running_id_ == id && control_ != nullptr) control_->Cancel();
  return job;
}

void JobRunner::Loop() {
  bool first = true;
  while (!stopping_) {
    const absl::StatusOr<std::optional<JobRecord>> job = NextJob(first);
    first = false;
    if (!job.ok()) LOG_ERROR("job store: {}", job.status().ToString());
    if (job.ok() && job->has_value()) {
      RunJob(**job);
      continue;
    }
    body_.Idle();
    if (!stopping_) store_.WaitForQueued(kIdlePeriod);
  }
}

absl::StatusOr<std::optional<JobRecord>> JobRunner::NextJob(bool first) {
  if (first) {
    TANDEM_ASSIGN_OR_RETURN(std::optional<JobRecord> unfinished, store_.Unfinished());
    if (unfinished.has_value()) {
      LOG_INFO("job {} ({}) was running when the trainer ended; taking it up again", unfinished->id, unfinished->name);
      return unfinished;
    }
  }
  return store_.NextQueued();
}

void JobRunner::RunJob(const JobRecord& job) {
  if (const absl::Status loading = store_.SetState(job.id, JobState::kLoading); !loading.ok()) {
    // Cancelled between the two looks at it, or the disk is full; a job that stays queued is tried again.
    LOG_ERROR("job {}: {}", job.id, loading.ToString());
    store_.WaitForQueued(absl::Milliseconds(100));
    return;
  }
  const RunControl* control = nullptr;
  {
    const MutexLock lock(mutex_);
    running_id_ = job.id;
    control_ = std::make_unique<RunControl>();
    control = control_.get();
    if (stopping_) control_->Stop();
    if (job.cancel_requested) control_->Cancel();
  }
  // A cancel that came before `control_` existed is in the store.
  if (const absl::StatusOr<bool> cancelled = store_.CancelRequested(job.id); cancelled.ok() && *cancelled) {
    const MutexLock lock(mutex_);
    control_->Cancel();
  }
  absl::Status outcome = control->Check();
  if (outcome.ok()) outcome = body_.Run(job, *control);
  Finish(job, outcome, control->Check());
  const MutexLock lock(mutex_);
  running_id_ = 0;
  control_.reset();
}

void JobRunner::Finish(const JobRecord& job, const absl::Status& outcome, const absl::Status& asked) {
  absl::Status stored;
  if (outcome.ok()) {
    LOG_INFO("job {} succeeded", job.id);
    stored = store_.SetState(job.id, JobState::kSucceeded);
  } else if (absl::IsCancelled(asked)) {
    LOG_INFO("job {} was cancelled", job.id);
    stored = store_.SetState(job.id, JobState::kCancelled);
  } else if (absl::IsAborted(asked)) {
    LOG_INFO("job {} stops here: {}", job.id, std::string(outcome.message()));
  } else {
    LOG_ERROR("job {} failed: {}", job.id, outcome.ToString());
    stored = store_.SetState(job.id, JobState::kFailed, std::string(outcome.message()));
  }
  if (!stored.ok()) LOG_ERROR("job {}: its end could not be stored: {}", job.id, stored.ToString());
}

}  // namespace tandem::jobs
