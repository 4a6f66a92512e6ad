#pragma once
// Supervised fine-tuning on prompt-completion rows: loss = sum over the completion tokens of an optimizer step of
// -logp, / their number (TRL: SFTTrainer, num_items_in_batch over the whole accumulation window).

#include <vector>

#include "services/trainer/job_inputs.h"
#include "services/trainer/step/pack_runner.h"
#include "services/trainer/task.h"

namespace tandem::trainer {

class SftTask final : public Task {
 public:
  SftTask(const JobInputs& inputs, PackRunner& packs) : inputs_(inputs), packs_(packs) {}

  absl::Status Prepare(int64_t step, const Weights& weights) override;
  absl::Status Accumulate(int64_t step) override;
  StepReport Report(int64_t step, double learning_rate) override;
  absl::Status SavePending(int64_t, const std::string&) const override { return absl::OkStatus(); }
  absl::Status LoadPending(int64_t, const std::string&) override { return absl::OkStatus(); }

 private:
  const JobInputs& inputs_;
  PackRunner& packs_;
  std::vector<Sequence> rows_;     // of the step
  int64_t items_ = 0;              // completion tokens of the step
  std::vector<RowScores> scores_;  // of the step
};

}  // namespace tandem::trainer
