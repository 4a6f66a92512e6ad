#pragma once
// The queue: one job runs, others wait, in the order of their submission. It moves jobs through their states in the
// store and knows nothing of training: a JobBody does the work.
//
// A job that was loading or running when the process ended is taken up again first. Threads: one of the runner's own
// calls the body; the methods may be called from any thread.

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "services/jobs/job_store.h"

namespace tandem::jobs {

// Whether a running job should go on. Thread-safe.
class RunControl {
 public:
  // CANCELLED: the client wants the job ended. ABORTED: the daemon stops, the job will be taken up again.
  absl::Status Check() const;
  void Cancel() { cancelled_ = true; }
  void Stop() { stopping_ = true; }

 private:
  std::atomic<bool> cancelled_ = false;
  std::atomic<bool> stopping_ = false;
};

// Does the work of jobs. One thread calls it.
class JobBody {
 public:
  virtual ~JobBody() = default;
  // Runs a job that is LOADING to its end, from its last checkpoint if it has one, and marks it RUNNING on the way. OK:
  // it succeeded. An error fails the job with its text, unless `control` asked for the end.
  virtual absl::Status Run(const JobRecord& job, const RunControl& control) = 0;
  // Called about once a second while no job runs.
  virtual void Idle() {}
};

class JobRunner {
 public:
  // Both must outlive the runner.
  JobRunner(JobStore& store, JobBody& body);
  // Stops as Stop does.
  ~JobRunner();

  void Start();
  // Asks the running job to stop at its next boundary, and waits for it. The job stays as it is in the store.
  void Stop();
  // Cancels a job in any state; a finished one stays as it is. NOT_FOUND for an unknown one.
  absl::StatusOr<JobRecord> Cancel(int64_t id);

 private:
  void Loop();
  absl::StatusOr<std::optional<JobRecord>> NextJob(bool first);
  void RunJob(const JobRecord& job);
  // `asked`: what the job's control says at the end.
  void Finish(const JobRecord& job, const absl::Status& outcome, const absl::Status& asked);

  JobStore& store_;
  JobBody& body_;
  std::atomic<bool> stopping_ = false;
  Mutex mutex_;
  int64_t running_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<RunControl> control_ ABSL_GUARDED_BY(mutex_);  // of the running job
  std::thread thread_;
};

}  // namespace tandem::jobs
