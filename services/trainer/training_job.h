#pragma once
// One run of one job in one session: loads it (from its last checkpoint, if there is one), trains, evaluates, writes
// what it leaves behind. One thread. A run that fails may be followed by another of the same job, which goes on from
// the last checkpoint: weights, moments, schedule and random numbers are functions of it, so the final weights are the
// same.
//
// Of an optimizer step, in order: rollouts and rewards without the turn; then with it packs forward and backward,
// clipping, the write window with AdamW, commit; yield keeping the moments; the step's record; evaluation if due;
// metrics line and completions log; checkpoint if due. The turn is never held while another tenant is waited for.

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "kernels/kernels.h"
#include "services/jobs/job_runner.h"
#include "services/jobs/job_store.h"
#include "services/tenant/session.h"
#include "services/trainer/job_checkpoint.h"
#include "services/trainer/job_inputs.h"
#include "services/trainer/rollouts.h"
#include "services/trainer/step/optimizer.h"
#include "services/trainer/step/pack_runner.h"
#include "services/trainer/step/training_memory.h"
#include "services/trainer/step/turn_keeper.h"
#include "services/trainer/task.h"
#include "services/trainer/trainer_metrics.h"

namespace tandem::trainer {

class TrainingJob {
 public:
  struct Surroundings {
    tenant::Session& session;
    Kernels& kernels;
    Rollouts& rollouts;
    jobs::JobStore& store;
    TrainerMetrics& metrics;
    const Clock& clock;
    std::function<uint64_t()> bytes_moved;  // copied between arena and host memory since the arbiter's start
    // Called before the job makes memory, and when its set is readable: an ended job's set goes at one of them.
    std::function<void(const MemoryNeed& need)> make_room;
    std::function<void()> set_readable;
  };
  TrainingJob(const Surroundings& around, const jobs::JobRecord& record, const jobs::RunControl& control);

  absl::Status Run();

  // Of a job that ended well or was cancelled: its weights stay served, the caller owns them.
  std::optional<TrainingMemory::Served> TakeServed() { return std::exchange(served_, std::nullopt); }
  // Optimizer steps committed by this run.
  int64_t steps_done() const { return steps_done_; }

 private:
  // In training_job_load.cc.
  absl::Status Load();
  absl::Status MakeMemory();
  absl::Status LoadState();
  absl::Status CommitLoaded();
  absl::Status MarkRunning();

  absl::Status TrainStep(int64_t step);
  absl::Status Update(int64_t step, double learning_rate, Metrics& metrics);
  absl::Status RecordStep(int64_t step, StepReport& report, double step_seconds);
  absl::Status EvaluateIfDue(int64_t step, Metrics& metrics);
  absl::Status CheckpointIfDue(int64_t step);
  absl::Status WriteCheckpoint(int64_t step);
  void EndServing(const absl::Status& outcome);
  absl::Status CommitEnded();

  std::string Note(int64_t step, bool ended) const;
  double LearningRate(int64_t step) const;
  void Report(const char* phase, double fraction, double tokens_per_second);
  void Log(const char* level, const std::string& text);

  const Surroundings around_;
  const jobs::JobRecord record_;
  const jobs::RunControl& control_;
  const std::function<absl::Status()> check_;
  const ProgressSink progress_;

  std::unique_ptr<JobInputs> inputs_;
  std::optional<FoundCheckpoint> checkpoint_;  // taken up from
  std::unique_ptr<Transformer> transformer_;
  std::unique_ptr<TrainingMemory> memory_;
  std::unique_ptr<TurnKeeper> turn_;
  std::unique_ptr<PackRunner> packs_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Task> task_;
  Weights weights_;
  int64_t step_ = 0;  // optimizer steps behind the weights
  jobs::JobSummary summary_;
  uint64_t bytes_moved_before_ = 0;
  int64_t steps_done_ = 0;
  double num_tokens_ = 0;
  std::optional<TrainingMemory::Served> served_;
};

}  // namespace tandem::trainer
