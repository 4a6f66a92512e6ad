#include "services/jobs/job_store.h"

#include <sqlite3.h>

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status.h"
#include "services/jobs/job_tables.h"
#include "services/jobs/sqlite.h"

namespace tandem::jobs {

const char* Name(JobState state) {
  constexpr const char* kNames[] = {"unknown", "queued", "loading", "running", "succeeded", "failed", "cancelled"};
  const auto index = static_cast<size_t>(state);
  return index < std::size(kNames) ? kNames[index] : kNames[0];
}

absl::StatusOr<std::unique_ptr<JobStore>> JobStore::Open(const std::string& path) {
  sqlite3* database = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  const int result = sqlite3_open_v2(path.c_str(), &database, flags, nullptr);
  if (result != SQLITE_OK) {
    absl::Status status = absl::PermissionDeniedError(
        absl::StrCat("job database ", path, ": ", sqlite3_errstr(result), "; check the directory and its permissions"));
    sqlite3_close(database);
    return status;
  }
  std::unique_ptr<JobStore> store(new JobStore(database));
  TANDEM_RETURN_IF_ERROR(PrepareDatabase(database));
  return store;
}

JobStore::JobStore(sqlite3* database) : database_(database) {}

JobStore::~JobStore() {
  sqlite3_close(database_);
}

template <typename F>
absl::Status JobStore::Write(F body) {
  MutexLock lock(mutex_);
  Transaction transaction(database_);
  TANDEM_RETURN_IF_ERROR(transaction.Begin());
  TANDEM_RETURN_IF_ERROR(body());
  TANDEM_RETURN_IF_ERROR(transaction.Commit());
  changed_.NotifyAll();
  return absl::OkStatus();
}

absl::StatusOr<JobRecord> JobStore::Submit(const NewJob& job) {
  if (job.idempotency_key.size() > 64) {
    return absl::InvalidArgumentError(
        absl::StrCat("idempotency_key has ", job.idempotency_key.size(), " characters; at most 64"));
  }
  JobRecord record;
  TANDEM_RETURN_IF_ERROR(Write([&]() -> absl::Status {
    if (!job.idempotency_key.empty()) {
      TANDEM_ASSIGN_OR_RETURN(std::optional<JobRecord> known, FindJobByKey(database_, job.idempotency_key));
      if (known) {
        record = *std::move(known);
        return absl::OkStatus();
      }
    }
    Statement same(database_, "SELECT id FROM jobs WHERE output_dir = ? AND state < ?");
    TANDEM_ASSIGN_OR_RETURN(const bool taken,
                            same.Bind(job.output_dir).Bind(static_cast<int64_t>(JobState::kSucceeded)).Step());
    if (taken) {
      return absl::AlreadyExistsError(absl::StrCat("output_dir: ", job.output_dir, " belongs to job ", same.Int(0),
                                                   ", which has not ended; give another directory"));
    }
    TANDEM_ASSIGN_OR_RETURN(const int64_t id, InsertJob(database_, job));
    TANDEM_ASSIGN_OR_RETURN(record, FindJob(database_, id));
    return absl::OkStatus();
  }));
  return record;
}

absl::StatusOr<JobRecord> JobStore::Get(int64_t id) const {
  MutexLock lock(mutex_);
  return FindJob(database_, id);
}

absl::StatusOr<std::optional<JobRecord>> JobStore::FindByKey(const std::string& idempotency_key) const {
  if (idempotency_key.empty()) return std::nullopt;
  MutexLock lock(mutex_);
  return FindJobByKey(database_, idempotency_key);
}

absl::StatusOr<std::vector<JobRecord>> JobStore::List(int64_t limit) const {
  MutexLock lock(mutex_);
  return SelectJobs(database_, "ORDER BY id DESC LIMIT ?", limit);
}

absl::StatusOr<std::optional<JobRecord>> JobStore::NextQueued() const {
  MutexLock lock(mutex_);
  return FindNextQueued(database_);
}

absl::StatusOr<std::optional<JobRecord>> JobStore::Unfinished() const {
  MutexLock lock(mutex_);
  TANDEM_ASSIGN_OR_RETURN(std::vector<JobRecord> jobs,
                          SelectJobs(database_, "WHERE state IN (2, 3) AND id > ? ORDER BY id LIMIT 1", 0));
  if (jobs.empty()) return std::nullopt;
  return std::optional<JobRecord>(std::move(jobs.front()));
}

bool JobStore::WaitForQueued(absl::Duration timeout) const {
  const absl::Time deadline = absl::Now() + timeout;
  MutexLock lock(mutex_);
  while (!stopped_) {
    const auto job = FindNextQueued(database_);
    if (job.ok() && job->has_value()) return true;
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return false;
    changed_.WaitFor(mutex_, left);
  }
  return false;
}

absl::Status JobStore::SetState(int64_t id, JobState state, const std::string& error) {
  return Write([&]() -> absl::Status {
    TANDEM_ASSIGN_OR_RETURN(const JobRecord job, FindJob(database_, id));
    if (HasEnded(state)) progress_.erase(id);
    return ChangeState(database_, job, state, error);
  });
}

absl::StatusOr<JobRecord> JobStore::RequestCancel(int64_t id) {
  JobRecord record;
  TANDEM_RETURN_IF_ERROR(Write([&]() -> absl::Status {
    TANDEM_ASSIGN_OR_RETURN(const JobRecord job, FindJob(database_, id));
    if (!HasEnded(job.state)) {
      Statement update(database_, "UPDATE jobs SET cancel_requested = 1 WHERE id = ?");
      TANDEM_RETURN_IF_ERROR(update.Bind(id).Run());
    }
    if (job.state == JobState::kQueued) {
      TANDEM_RETURN_IF_ERROR(ChangeState(database_, job, JobState::kCancelled, ""));
    }
    TANDEM_ASSIGN_OR_RETURN(record, FindJob(database_, id));
    return absl::OkStatus();
  }));
  return record;
}

absl::StatusOr<bool> JobStore::CancelRequested(int64_t id) const {
  TANDEM_ASSIGN_OR_RETURN(const JobRecord job, Get(id));
  return job.cancel_requested;
}

absl::Status JobStore::RecordStep(int64_t id, const StepDone& step, const JobSummary& summary) {
  return Write([&]() -> absl::Status {
    TANDEM_RETURN_IF_ERROR(MergeMetrics(database_, id, step.step, step.metrics));
    Statement update(database_, "UPDATE jobs SET step = ?, summary = ? WHERE id = ?");
    TANDEM_RETURN_IF_ERROR(update.Bind(step.step).Bind(SummaryToJson(summary)).Bind(id).Run());
    return AppendEvent(database_, id, step);
  });
}

absl::Status JobStore::RecordEval(int64_t id, const EvalDone& eval) {
  return Write([&]() -> absl::Status {
    TANDEM_RETURN_IF_ERROR(MergeMetrics(database_, id, eval.step, {{"eval_reward", eval.mean_reward}}));
    return AppendEvent(database_, id, eval);
  });
}

absl::Status JobStore::RecordCheckpoint(int64_t id, const CheckpointWritten& checkpoint) {
  return Write([&]() -> absl::Status {
    TANDEM_RETURN_IF_ERROR(AppendEvent(database_, id, checkpoint));
    Statement insert(database_, "INSERT OR REPLACE INTO checkpoints VALUES(?, ?, ?)");
    return insert.Bind(id).Bind(checkpoint.step).Bind(checkpoint.path).Run();
  });
}

absl::Status JobStore::RecordLog(int64_t id, const LogLine& line) {
  return Write([&] { return AppendEvent(database_, id, line); });
}

absl::Status JobStore::UpdateSummary(int64_t id, const JobSummary& summary) {
  return Write([&] {
    Statement update(database_, "UPDATE jobs SET summary = ? WHERE id = ?");
    return update.Bind(SummaryToJson(summary)).Bind(id).Run();
  });
}

absl::Status JobStore::ResumeFrom(int64_t id, int64_t step) {
  return Write([&]() -> absl::Status {
    TANDEM_RETURN_IF_ERROR(RewindTo(database_, id, step));
    Statement update(database_, "UPDATE jobs SET resumed_from_step = ? WHERE id = ?");
    return update.Bind(step).Bind(id).Run();
  });
}

absl::StatusOr<std::vector<CheckpointRecord>> JobStore::Checkpoints(int64_t id) const {
  MutexLock lock(mutex_);
  Statement query(database_, "SELECT step, path FROM checkpoints WHERE job = ? ORDER BY step");
  query.Bind(id);
  std::vector<CheckpointRecord> checkpoints;
  while (true) {
    TANDEM_ASSIGN_OR_RETURN(const bool found, query.Step());
    if (!found) return checkpoints;
    checkpoints.push_back({.step = query.Int(0), .path = query.Text(1)});
  }
}

absl::Status JobStore::ForgetCheckpoint(int64_t id, int64_t step) {
  return Write([&] {
    Statement remove(database_, "DELETE FROM checkpoints WHERE job = ? AND step = ?");
    return remove.Bind(id).Bind(step).Run();
  });
}

void JobStore::SetProgress(int64_t id, const Progress& progress) {
  MutexLock lock(mutex_);
  auto& [current, counter] = progress_[id];
  current = progress;
  ++counter;
  changed_.NotifyAll();
}

absl::StatusOr<std::vector<JobEvent>> JobStore::EventsAfter(int64_t id, int64_t after, int64_t limit) const {
  MutexLock lock(mutex_);
  TANDEM_RETURN_IF_ERROR(FindJob(database_, id).status());
  return ReadEvents(database_, id, after, limit);
}

absl::StatusOr<JobNews> JobStore::WaitForNews(int64_t id, int64_t after, int64_t progress_counter,
                                              absl::Duration timeout) const {
  constexpr int64_t kMaxEvents = 1000;
  const absl::Time deadline = absl::Now() + timeout;
  MutexLock lock(mutex_);
  TANDEM_RETURN_IF_ERROR(FindJob(database_, id).status());
  while (true) {
    JobNews news{.events = {}, .progress = std::nullopt, .progress_counter = progress_counter};
    TANDEM_ASSIGN_OR_RETURN(news.events, ReadEvents(database_, id, after, kMaxEvents));
    const auto progress = progress_.find(id);
    if (progress != progress_.end() && progress->second.second > progress_counter) {
      news.progress = progress->second.first;
      news.progress_counter = progress->second.second;
    }
    const absl::Duration left = deadline - absl::Now();
    if (!news.events.empty() || news.progress || stopped_ || left <= absl::ZeroDuration()) return news;
    changed_.WaitFor(mutex_, left);
  }
}

void JobStore::StopWaits() {
  MutexLock lock(mutex_);
  stopped_ = true;
  changed_.NotifyAll();
}

}  // namespace tandem::jobs
