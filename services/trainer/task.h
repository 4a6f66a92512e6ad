#pragma once
// What SFT and GRPO do differently within an optimizer step. The loop around it (training_job.h) is the same.
//
//   for each step:  Prepare  (the turn is taken, gradients are 0)  Accumulate  (optimizer, commit)  Report
// One thread (the job's). Steps count from 0 here: step k leads to checkpoint k + 1.

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "services/jobs/completions_log.h"
#include "services/trainer/grpo/metrics.h"

namespace tandem::trainer {

// Tells those who watch where the job is: "generation", "reward", "train", "eval", "checkpoint", "waiting".
using ProgressSink = std::function<void(const char* phase, double fraction, double tokens_per_second)>;

// The weights that a step starts from.
struct Weights {
  uint64_t set_id = 0, version = 0;
};

struct StepReport {
  Metrics metrics;                        // loss, entropy, reward, ...
  std::vector<jobs::CompletionRow> rows;  // for the completions log; empty for SFT
  int64_t tokens_trained = 0;             // input tokens of the step's rows
  int64_t tokens_generated = 0;
  double generation_seconds = 0;  // inference had the turn
  double reward_seconds = 0;
  double waiting_seconds = 0;  // of the rollout call, without generation
};

class Task {
 public:
  virtual ~Task() = default;
  // What needs no turn: rollouts and rewards. The turn is not held.
  virtual absl::Status Prepare(int64_t step, const Weights& weights) = 0;
  // gradients += those of the step's loss. The turn is held, and lent between packs.
  virtual absl::Status Accumulate(int64_t step) = 0;
  // Of the step that was accumulated last.
  virtual StepReport Report(int64_t step, double learning_rate) = 0;

  // What later steps need and cannot be made again from a checkpoint before step `next_step`: written into and read
  // from the folder `dir`.
  virtual absl::Status SavePending(int64_t next_step, const std::string& dir) const = 0;
  virtual absl::Status LoadPending(int64_t next_step, const std::string& dir) = 0;
};

}  // namespace tandem::trainer
