#pragma once
// The tables of the job database and the queries that several verbs of job_store share. Free functions over a
// connection whose lock (and, for changes, transaction) the caller holds. Private to job_store.

#include <sqlite3.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/jobs/job_event_json.h"
#include "services/jobs/job_store.h"

namespace tandem::jobs {

// Pragmas, a check of the file, and the tables of a new one. DATA_LOSS for a damaged file, UNAVAILABLE if another
// process holds it, FAILED_PRECONDITION for a layout of another version.
absl::Status PrepareDatabase(sqlite3* database);

// The jobs that `clause` ("WHERE ... ORDER BY ...") selects; `value` is its one parameter.
absl::StatusOr<std::vector<JobRecord>> SelectJobs(sqlite3* database, absl::string_view clause, int64_t value);
// NOT_FOUND for an unknown id.
absl::StatusOr<JobRecord> FindJob(sqlite3* database, int64_t id);
absl::StatusOr<std::optional<JobRecord>> FindJobByKey(sqlite3* database, const std::string& idempotency_key);
absl::StatusOr<std::optional<JobRecord>> FindNextQueued(sqlite3* database);

// Adds a queued job with its first event and returns its id.
absl::StatusOr<int64_t> InsertJob(sqlite3* database, const NewJob& job);
// FAILED_PRECONDITION for an illegal change; appends the event.
absl::Status ChangeState(sqlite3* database, const JobRecord& job, JobState state, const std::string& error);
// Gives the event the job's next sequence number. NOT_FOUND for an unknown job.
absl::Status AppendEvent(sqlite3* database, int64_t id, const EventBody& event);
absl::StatusOr<std::vector<JobEvent>> ReadEvents(sqlite3* database, int64_t id, int64_t after, int64_t limit);

// Adds metrics to those of the step and to the job's last values.
absl::Status MergeMetrics(sqlite3* database, int64_t id, int64_t step, const std::map<std::string, double>& metrics);
// Forgets metrics and checkpoints after `step` and puts the job's step and last values back to it.
absl::Status RewindTo(sqlite3* database, int64_t id, int64_t step);

}  // namespace tandem::jobs
