#include "services/jobs/job_tables.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status.h"
#include "services/jobs/sqlite.h"

namespace tandem::jobs {
namespace {

constexpr int kLayout = 1;  // PRAGMA user_version

constexpr const char* kTables = R"(
CREATE TABLE jobs(
  id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, task TEXT NOT NULL, output_dir TEXT NOT NULL,
  resolved_yaml TEXT NOT NULL, max_steps INTEGER NOT NULL, idempotency_key TEXT UNIQUE, state INTEGER NOT NULL,
  cancel_requested INTEGER NOT NULL DEFAULT 0, step INTEGER NOT NULL DEFAULT 0, error TEXT NOT NULL DEFAULT '',
  submitted_at REAL NOT NULL, started_at REAL NOT NULL DEFAULT 0, ended_at REAL NOT NULL DEFAULT 0,
  metrics TEXT NOT NULL DEFAULT '{}', resumed_from_step INTEGER NOT NULL DEFAULT 0, summary TEXT NOT NULL,
  last_sequence INTEGER NOT NULL DEFAULT 0);
CREATE INDEX jobs_by_state ON jobs(state, id);
CREATE TABLE events(job INTEGER NOT NULL, sequence INTEGER NOT NULL, time REAL NOT NULL, kind TEXT NOT NULL,
  body TEXT NOT NULL, PRIMARY KEY(job, sequence)) WITHOUT ROWID;
CREATE TABLE metrics(job INTEGER NOT NULL, step INTEGER NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY(job, step)) WITHOUT ROWID;
CREATE TABLE checkpoints(job INTEGER NOT NULL, step INTEGER NOT NULL, path TEXT NOT NULL,
  PRIMARY KEY(job, step)) WITHOUT ROWID;
PRAGMA user_version = 1;
)";

constexpr absl::string_view kColumns =
    "SELECT id, name, task, output_dir, resolved_yaml, max_steps, state, cancel_requested, step, error, submitted_at, "
    "started_at, ended_at, metrics, resumed_from_step, summary FROM jobs ";

double Seconds() {
  return absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
}

int64_t Number(JobState state) {
  return static_cast<int64_t>(state);
}

bool IsLegal(JobState from, JobState to) {
  switch (from) {
    case JobState::kQueued:
      return to == JobState::kLoading || to == JobState::kCancelled || to == JobState::kFailed;
    case JobState::kLoading:
      return to == JobState::kLoading || to == JobState::kRunning || to == JobState::kFailed ||
             to == JobState::kCancelled;
    case JobState::kRunning:
      return to != JobState::kQueued && to != JobState::kRunning;
    default:
      return false;
  }
}

absl::StatusOr<JobRecord> ReadRecord(Statement& row) {
  JobRecord job{.id = row.Int(0),
                .name = row.Text(1),
                .task = row.Text(2),
                .output_dir = row.Text(3),
                .resolved_yaml = row.Text(4),
                .max_steps = row.Int(5),
                .state = static_cast<JobState>(row.Int(6)),
                .cancel_requested = row.Int(7) != 0,
                .step = row.Int(8),
                .error = row.Text(9),
                .submitted_at = row.Double(10),
                .started_at = row.Double(11),
                .ended_at = row.Double(12),
                .metrics = {},
                .resumed_from_step = row.Int(14),
                .summary = {}};
  TANDEM_ASSIGN_OR_RETURN(job.metrics, MetricsFromJson(row.Text(13)));
  TANDEM_ASSIGN_OR_RETURN(job.summary, SummaryFromJson(row.Text(15)));
  return job;
}

}  // namespace

absl::StatusOr<std::vector<JobRecord>> SelectJobs(sqlite3* database, absl::string_view clause, int64_t value) {
  Statement query(database, absl::StrCat(kColumns, clause).c_str());
  query.Bind(value);
  std::vector<JobRecord> jobs;
  while (true) {
    TANDEM_ASSIGN_OR_RETURN(const bool found, query.Step());
    if (!found) return jobs;
    TANDEM_ASSIGN_OR_RETURN(JobRecord job, ReadRecord(query));
    jobs.push_back(std::move(job));
  }
}

absl::StatusOr<JobRecord> FindJob(sqlite3* database, int64_t id) {
  TANDEM_ASSIGN_OR_RETURN(std::vector<JobRecord> jobs, SelectJobs(database, "WHERE id = ?", id));
  if (jobs.empty()) return absl::NotFoundError(absl::StrCat("no job ", id, "; 'tandem jobs' lists them"));
  return std::move(jobs.front());
}

absl::StatusOr<std::optional<JobRecord>> FindJobByKey(sqlite3* database, const std::string& idempotency_key) {
  Statement query(database, "SELECT id FROM jobs WHERE idempotency_key = ?");
  TANDEM_ASSIGN_OR_RETURN(const bool found, query.Bind(idempotency_key).Step());
  if (!found) return std::nullopt;
  TANDEM_ASSIGN_OR_RETURN(JobRecord job, FindJob(database, query.Int(0)));
  return std::optional<JobRecord>(std::move(job));
}

absl::StatusOr<std::optional<JobRecord>> FindNextQueued(sqlite3* database) {
  TANDEM_ASSIGN_OR_RETURN(std::vector<JobRecord> jobs,
                          SelectJobs(database, "WHERE state = ? ORDER BY id LIMIT 1", Number(JobState::kQueued)));
  if (jobs.empty()) return std::nullopt;
  return std::optional<JobRecord>(std::move(jobs.front()));
}

absl::StatusOr<int64_t> InsertJob(sqlite3* database, const NewJob& job) {
  Statement insert(database,
                   "INSERT INTO jobs(name, task, output_dir, resolved_yaml, max_steps, idempotency_key, state, "
                   "submitted_at, summary) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)");
  insert.Bind(job.name).Bind(job.task).Bind(job.output_dir).Bind(job.resolved_yaml).Bind(job.max_steps);
  job.idempotency_key.empty() ? insert.BindNull() : insert.Bind(job.idempotency_key);
  TANDEM_RETURN_IF_ERROR(insert.Bind(Number(JobState::kQueued)).Bind(Seconds()).Bind(SummaryToJson({})).Run());
  const int64_t id = sqlite3_last_insert_rowid(database);
  TANDEM_RETURN_IF_ERROR(AppendEvent(database, id, StateChanged{.state = JobState::kQueued, .error = ""}));
  return id;
}

absl::Status AppendEvent(sqlite3* database, int64_t id, const EventBody& event) {
  Statement next(database, "UPDATE jobs SET last_sequence = last_sequence + 1 WHERE id = ? RETURNING last_sequence");
  TANDEM_ASSIGN_OR_RETURN(const bool found, next.Bind(id).Step());
  if (!found) return absl::NotFoundError(absl::StrCat("no job ", id));
  const int64_t sequence = next.Int(0);
  TANDEM_RETURN_IF_ERROR(next.Run());
  Statement insert(database, "INSERT INTO events VALUES(?, ?, ?, ?, ?)");
  return insert.Bind(id).Bind(sequence).Bind(Seconds()).Bind(KindOf(event)).Bind(EventToJson(event)).Run();
}

absl::Status MergeMetrics(sqlite3* database, int64_t id, int64_t step, const std::map<std::string, double>& metrics) {
  Statement query(database, "SELECT body FROM metrics WHERE job = ? AND step = ?");
  TANDEM_ASSIGN_OR_RETURN(const bool found, query.Bind(id).Bind(step).Step());
  std::map<std::string, double> of_step;
  if (found) {
    TANDEM_ASSIGN_OR_RETURN(of_step, MetricsFromJson(query.Text(0)));
  }
  TANDEM_ASSIGN_OR_RETURN(JobRecord job, FindJob(database, id));
  for (const auto& [name, value] : metrics) of_step[name] = job.metrics[name] = value;
  Statement replace(database, "INSERT OR REPLACE INTO metrics VALUES(?, ?, ?)");
  TANDEM_RETURN_IF_ERROR(replace.Bind(id).Bind(step).Bind(MetricsToJson(of_step)).Run());
  Statement update(database, "UPDATE jobs SET metrics = ? WHERE id = ?");
  return update.Bind(MetricsToJson(job.metrics)).Bind(id).Run();
}

absl::Status ChangeState(sqlite3* database, const JobRecord& job, JobState state, const std::string& error) {
  if (!IsLegal(job.state, state)) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job.id, " is ", Name(job.state), "; it cannot become ", Name(state)));
  }
  const double now = Seconds();
  const bool starts = state == JobState::kLoading && job.started_at == 0;
  Statement update(database, "UPDATE jobs SET state = ?, error = ?, started_at = ?, ended_at = ? WHERE id = ?");
  TANDEM_RETURN_IF_ERROR(update.Bind(Number(state))
                             .Bind(error)
                             .Bind(starts ? now : job.started_at)
                             .Bind(HasEnded(state) ? now : 0.0)
                             .Bind(job.id)
                             .Run());
  return AppendEvent(database, job.id, StateChanged{.state = state, .error = error});
}

absl::StatusOr<std::vector<JobEvent>> ReadEvents(sqlite3* database, int64_t id, int64_t after, int64_t limit) {
  Statement query(
      database,
      "SELECT sequence, time, kind, body FROM events WHERE job = ? AND sequence > ? ORDER BY sequence LIMIT ?");
  query.Bind(id).Bind(after).Bind(limit);
  std::vector<JobEvent> events;
  while (true) {
    TANDEM_ASSIGN_OR_RETURN(const bool found, query.Step());
    if (!found) return events;
    JobEvent event{.sequence = query.Int(0), .time = query.Double(1), .event = {}};
    TANDEM_ASSIGN_OR_RETURN(event.event, EventFromJson(query.Text(2), query.Text(3)));
    events.push_back(std::move(event));
  }
}

absl::Status PrepareDatabase(sqlite3* database) {
  // Exclusive: a second trainer on the same file is refused at its start instead of running the same job.
  TANDEM_RETURN_IF_ERROR(Execute(database, "PRAGMA locking_mode = EXCLUSIVE"));
  TANDEM_RETURN_IF_ERROR(Execute(database, "PRAGMA journal_mode = WAL"));
  TANDEM_RETURN_IF_ERROR(Execute(database, "PRAGMA synchronous = FULL"));
  Statement check(database, "PRAGMA quick_check(1)");
  TANDEM_ASSIGN_OR_RETURN(const bool checked, check.Step());
  if (!checked || check.Text(0) != "ok") {
    return absl::DataLossError(absl::StrCat("job database ", sqlite3_db_filename(database, "main"), " is damaged: ",
                                            check.Text(0), "; move the file away to start with an empty one"));
  }
  Statement version(database, "PRAGMA user_version");
  TANDEM_RETURN_IF_ERROR(version.Step().status());
  const int64_t layout = version.Int(0);
  TANDEM_RETURN_IF_ERROR(version.Run());
  Transaction transaction(database);  // takes the lock, also when there is nothing to make
  TANDEM_RETURN_IF_ERROR(transaction.Begin());
  if (layout == 0) {
    TANDEM_RETURN_IF_ERROR(Execute(database, kTables));
  } else if (layout != kLayout) {
    return absl::FailedPreconditionError(absl::StrCat("job database ", sqlite3_db_filename(database, "main"),
                                                      " has layout ", layout, ", this program knows ", kLayout,
                                                      "; use the program that wrote it or move the file away"));
  }
  return transaction.Commit();
}

absl::Status RewindTo(sqlite3* database, int64_t id, int64_t step) {
  for (const char* sql :
       {"DELETE FROM metrics WHERE job = ? AND step > ?", "DELETE FROM checkpoints WHERE job = ? AND step > ?"}) {
    Statement remove(database, sql);
    TANDEM_RETURN_IF_ERROR(remove.Bind(id).Bind(step).Run());
  }
  std::map<std::string, double> last;
  Statement query(database, "SELECT body FROM metrics WHERE job = ? ORDER BY step");
  query.Bind(id);
  while (true) {
    TANDEM_ASSIGN_OR_RETURN(const bool found, query.Step());
    if (!found) break;
    TANDEM_ASSIGN_OR_RETURN(const auto metrics, MetricsFromJson(query.Text(0)));
    for (const auto& [name, value] : metrics) last[name] = value;
  }
  Statement update(database, "UPDATE jobs SET step = ?, metrics = ? WHERE id = ?");
  return update.Bind(step).Bind(MetricsToJson(last)).Bind(id).Run();
}

}  // namespace tandem::jobs
