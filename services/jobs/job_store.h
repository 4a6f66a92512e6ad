#pragma once
// Jobs, their events, metrics and checkpoints, in one SQLite database (WAL, synchronous FULL): what was answered to a
// client or shown as an event survives kill -9 and power loss. Thread-safe; every call is one transaction.
// It is not the source of truth about the weights in memory (the set's note is) and knows no protobuf.
//
// Legal state changes: queued -> loading | cancelled | failed; loading -> running | failed | cancelled;
// running -> succeeded | failed | cancelled | loading (taken up again after a crash); loading -> loading likewise.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"

struct sqlite3;

namespace tandem::jobs {

enum class JobState { kQueued = 1, kLoading = 2, kRunning = 3, kSucceeded = 4, kFailed = 5, kCancelled = 6 };
const char* Name(JobState state);
inline bool HasEnded(JobState state) {
  return state >= JobState::kSucceeded;
}

// Totals of a job, over all processes that ran it.
struct JobSummary {
  double generation_seconds = 0;
  double reward_seconds = 0;
  double train_seconds = 0;
  double switch_seconds = 0;
  uint64_t turns = 0;
  uint64_t bytes_moved = 0;
  uint64_t versions = 0;
  uint64_t optimizer_steps = 0;  // executed, those repeated after a crash included
  uint64_t tokens_generated = 0;
  uint64_t tokens_trained = 0;
  std::string checkpoint;
  bool operator==(const JobSummary&) const = default;
};

struct NewJob {
  std::string name;
  std::string task;  // "grpo" or "sft"
  std::string output_dir;
  std::string resolved_yaml;
  int64_t max_steps = 0;
  std::string idempotency_key;  // empty: none
};

struct JobRecord {
  int64_t id = 0;
  std::string name;
  std::string task;
  std::string output_dir;
  std::string resolved_yaml;
  int64_t max_steps = 0;
  JobState state = JobState::kQueued;
  bool cancel_requested = false;
  int64_t step = 0;
  std::string error;
  double submitted_at = 0;  // seconds since the epoch; 0: not yet
  double started_at = 0;
  double ended_at = 0;
  std::map<std::string, double> metrics;  // last value of each
  int64_t resumed_from_step = 0;
  JobSummary summary;
};

struct StateChanged {
  JobState state = JobState::kQueued;
  std::string error;
};
struct StepDone {
  int64_t step = 0;
  int64_t max_steps = 0;
  std::map<std::string, double> metrics;
  uint64_t version = 0;
};
struct EvalDone {
  int64_t step = 0;
  int64_t rows = 0;
  double mean_reward = 0;
  double seconds = 0;
};
struct CheckpointWritten {
  int64_t step = 0;
  std::string path;
};
struct LogLine {
  std::string level;  // "info" or "warning"
  std::string text;
};
struct JobEvent {
  int64_t sequence = 0;  // from 1 within a job, without gaps
  double time = 0;       // seconds since the epoch
  std::variant<StateChanged, StepDone, EvalDone, CheckpointWritten, LogLine> event;
};

// Where the job is right now; kept in memory only.
struct Progress {
  int64_t step = 0;
  std::string phase;
  double fraction = 0;
  double tokens_per_second = 0;
};

// What WaitForNews found. `progress` is set if it changed since the given counter.
struct JobNews {
  std::vector<JobEvent> events;
  std::optional<Progress> progress;
  int64_t progress_counter = 0;
};

struct CheckpointRecord {
  int64_t step = 0;
  std::string path;
};

class JobStore {
 public:
  // Opens or makes the database; a file that is no database, is damaged, of a newer layout or locked by another process
  // is an error that names it and the remedy.
  static absl::StatusOr<std::unique_ptr<JobStore>> Open(const std::string& path);
  ~JobStore();

  // A new job at the end of the queue, or the job of the same idempotency key (its second submission changes nothing).
  // ALREADY_EXISTS if a job that has not ended has the same output_dir (what ended jobs left there: output_dir.h).
  absl::StatusOr<JobRecord> Submit(const NewJob& job);
  absl::StatusOr<JobRecord> Get(int64_t id) const;  // NOT_FOUND
  // The job submitted with this key; nullopt for an unknown or empty key.
  absl::StatusOr<std::optional<JobRecord>> FindByKey(const std::string& idempotency_key) const;
  absl::StatusOr<std::vector<JobRecord>> List(int64_t limit) const;  // newest first
  // The oldest queued job.
  absl::StatusOr<std::optional<JobRecord>> NextQueued() const;
  // The job that is loading or running: after a start, the one to take up again.
  absl::StatusOr<std::optional<JobRecord>> Unfinished() const;
  // Waits until a job is queued (true) or the time has passed.
  bool WaitForQueued(absl::Duration timeout) const;

  // FAILED_PRECONDITION for an illegal change. Appends a StateChanged.
  absl::Status SetState(int64_t id, JobState state, const std::string& error = "");
  // A queued job is cancelled at once; of a running one cancel_requested is set; an ended one stays as it is.
  absl::StatusOr<JobRecord> RequestCancel(int64_t id);
  absl::StatusOr<bool> CancelRequested(int64_t id) const;

  // Each appends its event. RecordStep also stores the step, its metrics and the summary.
  absl::Status RecordStep(int64_t id, const StepDone& step, const JobSummary& summary);
  absl::Status RecordEval(int64_t id, const EvalDone& eval);  // metric "eval_reward" too
  absl::Status RecordCheckpoint(int64_t id, const CheckpointWritten& checkpoint);
  absl::Status RecordLog(int64_t id, const LogLine& line);

  absl::Status UpdateSummary(int64_t id, const JobSummary& summary);
  // Job is taken up again from `step`: forgets metrics and checkpoints of later steps (events stay) and sets
  // resumed_from_step and step.
  absl::Status ResumeFrom(int64_t id, int64_t step);
  absl::StatusOr<std::vector<CheckpointRecord>> Checkpoints(int64_t id) const;  // by step
  absl::Status ForgetCheckpoint(int64_t id, int64_t step);

  void SetProgress(int64_t id, const Progress& progress);

  // At most `limit` events after sequence number `after`.
  absl::StatusOr<std::vector<JobEvent>> EventsAfter(int64_t id, int64_t after, int64_t limit = 1000) const;
  // Waits until there are events after `after`, or progress newer than `progress_counter`, or the time has passed
  // (then the answer is empty).
  absl::StatusOr<JobNews> WaitForNews(int64_t id, int64_t after, int64_t progress_counter,
                                      absl::Duration timeout) const;
  // Ends all waits, now and later: the daemon is stopping.
  void StopWaits();

 private:
  explicit JobStore(sqlite3* database);

  // Runs `body` in one transaction under the lock and wakes the waiters; defined and used in job_store.cc alone.
  template <typename F>
  absl::Status Write(F body);

  mutable Mutex mutex_;
  mutable CondVar changed_;
  sqlite3* const database_ ABSL_PT_GUARDED_BY(mutex_);
  std::map<int64_t, std::pair<Progress, int64_t>> progress_ ABSL_GUARDED_BY(mutex_);  // with its counter
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tandem::jobs
