#pragma once
// GRPO: samples generation batches when they are due, and makes the gradient of an optimizer step's loss from its
// micro-batches (rows of one or more batches).

#include <map>
#include <memory>
#include <vector>

#include "services/trainer/grpo/generation_batch.h"
#include "services/trainer/grpo/loss.h"
#include "services/trainer/step/pack_runner.h"
#include "services/trainer/task.h"

namespace tandem::trainer {

class GrpoTask final : public Task {
 public:
  struct Surroundings {
    SamplingContext sampling;
    PackRunner& packs;
    const TrainingMemory& memory;
  };
  explicit GrpoTask(const Surroundings& around);

  absl::Status Prepare(int64_t step, const Weights& weights) override;
  absl::Status Accumulate(int64_t step) override;
  StepReport Report(int64_t step, double learning_rate) override;
  absl::Status SavePending(int64_t next_step, const std::string& dir) const override;
  absl::Status LoadPending(int64_t next_step, const std::string& dir) override;

 private:
  struct StepRow {
    jobs::CompletionRow* row;
    int64_t micro_batch;  // within the step
    int64_t iteration;
  };
  absl::Status MakeOldLogps();
  Sequence SequenceOf(const jobs::CompletionRow& row) const;
  ScoredRow ScoredRowOf(const jobs::CompletionRow& row, const RowScores& scores) const;

  const Surroundings around_;
  const JobInputs& inputs_;
  const LossOptions loss_;
  std::map<int64_t, GenerationBatch> batches_;  // those in use
  std::vector<int64_t> sampled_now_;            // batches that are new in this step
  std::vector<StepRow> step_rows_;              // in the order of the loss
  std::vector<RowScores> scores_;               // of step_rows_
};

}  // namespace tandem::trainer
