#pragma once
// The trainer's body of jobs: keeps the session with the arbiter, runs a job as often as it takes when the pool is
// lost, and looks after the weights that an ended job left served. One thread (the runner's).

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "services/jobs/job_runner.h"
#include "services/trainer/training_job.h"

namespace tandem::trainer {

class JobExecutor final : public jobs::JobBody {
 public:
  struct Options {
    tenant::SessionOptions session;
    absl::Duration arbiter_timeout = absl::Minutes(5);  // how long a job waits for an arbiter
  };
  // References must outlive the executor.
  struct Surroundings {
    Kernels& kernels;
    Rollouts& rollouts;
    jobs::JobStore& store;
    TrainerMetrics& metrics;
    const Clock& clock;
    std::function<uint64_t()> bytes_moved;
  };
  JobExecutor(const Surroundings& around, Options options);
  ~JobExecutor() override;

  absl::Status Run(const jobs::JobRecord& job, const jobs::RunControl& control) override;
  // Attaches to an arbiter that has come up; retires an ended job's set once another tenant serves a newer one.
  void Idle() override;

  // Bytes of the arena, 0 while there is no arbiter. Any thread.
  uint64_t arena_bytes() const { return arena_bytes_; }

 private:
  absl::Status EnsureSession(absl::Duration timeout, const std::function<absl::Status()>& check);
  void DropSession();
  absl::Status RunOnce(const jobs::JobRecord& job, const jobs::RunControl& control, int64_t& steps_done);
  void ReleaseUnused(const jobs::JobRecord& job);
  void RetireServed();

  const Surroundings around_;
  const Options options_;
  std::unique_ptr<tenant::Session> session_;
  std::optional<TrainingMemory::Served> served_;  // of the last job that ended
  std::atomic<uint64_t> arena_bytes_ = 0;
};

}  // namespace tandem::trainer
