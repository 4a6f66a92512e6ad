#include "services/trainer/grpo/grpo_task.h"

#include <cmath>
#include <utility>

#include "common/base/status.h"

namespace tandem::trainer {
namespace {

LossOptions LossOptionsOf(const JobInputs& inputs) {
  const jobs::JobSpec& spec = inputs.spec;
  return {.type = spec.loss_type,
          .epsilon = spec.epsilon,
          .epsilon_high = spec.epsilon_high.value_or(spec.epsilon),
          .micro_batch_rows = static_cast<int>(inputs.plan.micro_batch_size),
          .gradient_accumulation_steps = static_cast<int>(inputs.plan.micro_batches_per_step),
          .steps_per_generation = static_cast<int>(inputs.plan.steps_per_generation)};
}

}  // namespace

GrpoTask::GrpoTask(const Surroundings& around)
    : around_(around), inputs_(around.sampling.inputs), loss_(LossOptionsOf(inputs_)) {}

absl::Status GrpoTask::Prepare(int64_t step, const Weights& weights) {
  const jobs::BatchPlan& plan = inputs_.plan;
  const int64_t first = step * plan.micro_batches_per_step;
  std::erase_if(batches_,
                [&](const auto& entry) { return entry.first < jobs::MicroBatchAt(plan, first).generation_batch; });
  sampled_now_.clear();
  step_rows_.clear();
  for (int64_t m = 0; m < plan.micro_batches_per_step; ++m) {
    const jobs::MicroBatch micro = jobs::MicroBatchAt(plan, first + m);
    if (!batches_.contains(micro.generation_batch)) {
      TANDEM_CHECK(micro.iteration == 0 && micro.slice == 0, "generation batch ", micro.generation_batch,
                   " was not sampled when step ", step, " needed its slice ", micro.slice);
      around_.sampling.progress("generation", 0, 0);
      TANDEM_ASSIGN_OR_RETURN(batches_[micro.generation_batch],
                              SampleGenerationBatch(around_.sampling, weights, micro.generation_batch));
      sampled_now_.push_back(micro.generation_batch);
    }
    std::vector<jobs::CompletionRow>& rows = batches_[micro.generation_batch].rows;
    for (int64_t i = 0; i < plan.micro_batch_size; ++i) {
      step_rows_.push_back({&rows[static_cast<size_t>(micro.slice * plan.micro_batch_size + i)], m, micro.iteration});
    }
  }
  return absl::OkStatus();
}

Sequence GrpoTask::SequenceOf(const jobs::CompletionRow& row) const {
  return {row.prompt_ids, row.completion_ids};
}

// The log-probabilities of the policy that sampled, by the trainer's own forward, before it is changed.
absl::Status GrpoTask::MakeOldLogps() {
  for (const int64_t index : sampled_now_) {
    std::vector<jobs::CompletionRow>& rows = batches_[index].rows;
    std::vector<Sequence> sequences;
    sequences.reserve(rows.size());
    for (const jobs::CompletionRow& row : rows) sequences.push_back(SequenceOf(row));
    TANDEM_ASSIGN_OR_RETURN(std::vector<RowScores> scores,
                            around_.packs.Score(sequences, around_.memory.KeepWithinStep()));
    for (size_t i = 0; i < rows.size(); ++i) rows[i].old_logprobs = std::move(scores[i].logps);
  }
  return absl::OkStatus();
}

absl::Status GrpoTask::Accumulate(int64_t /*step*/) {
  if (inputs_.plan.needs_old_logprobs) TANDEM_RETURN_IF_ERROR(MakeOldLogps());
  std::vector<Sequence> sequences;
  std::vector<bool> has_gradient;
  for (const StepRow& step_row : step_rows_) {
    sequences.push_back(SequenceOf(*step_row.row));
    has_gradient.push_back(step_row.row->advantage != 0);
  }
  const auto gradient = [this](size_t index, const RowScores& scores, absl::Span<float> out) {
    const ScoredRow row = ScoredRowOf(*step_rows_[index].row, scores);
    for (size_t t = 0; t < out.size(); ++t) {
      const TokenTerm term = ComputeTokenTerm(loss_, row.logps[t], row.old_logps[t], row.advantage);
      out[t] = static_cast<float>(row.token_weight * term.gradient);
    }
  };
  TANDEM_ASSIGN_OR_RETURN(scores_, around_.packs.ScoreAndAccumulate(sequences, has_gradient, gradient));
  return absl::OkStatus();
}

ScoredRow GrpoTask::ScoredRowOf(const jobs::CompletionRow& row, const RowScores& scores) const {
  const auto length = static_cast<int64_t>(row.completion_ids.size());
  return {.logps = scores.logps,
          .old_logps = row.old_logprobs.empty() ? scores.logps : row.old_logprobs,
          .sampling_logps = row.logprobs,
          .entropies = scores.entropies,
          .advantage = row.advantage,
          .token_weight = TokenWeight(loss_, length, row.num_items_in_batch)};
}

StepReport GrpoTask::Report(int64_t step, double learning_rate) {
  StepReport report;
  std::vector<ScoredRow> scored;
  for (size_t i = 0; i < step_rows_.size(); ++i) {
    const StepRow& step_row = step_rows_[i];
    scored.push_back(ScoredRowOf(*step_row.row, scores_[i]));
    report.rows.push_back(*step_row.row);
    jobs::CompletionRow& row = report.rows.back();
    row.step = step + 1;
    row.iteration = step_row.iteration;
    row.micro_batch = step_row.micro_batch;
    row.learning_rate = learning_rate;
    report.tokens_trained += SequenceOf(row).input_tokens();
  }
  report.metrics = LossMetrics(loss_, scored);
  for (const int64_t index : sampled_now_) {
    const GenerationBatch& batch = batches_[index];
    for (const auto& [name, value] : batch.metrics) {
      report.metrics[name] += value / static_cast<double>(sampled_now_.size());
    }
    report.tokens_generated += batch.tokens;
    report.generation_seconds += batch.generation_seconds;
    report.reward_seconds += batch.reward_seconds;
    report.waiting_seconds += batch.waiting_seconds;
  }
  return report;
}

absl::Status GrpoTask::SavePending(int64_t next_step, const std::string& dir) const {
  const int64_t first = next_step * inputs_.plan.micro_batches_per_step;
  const jobs::MicroBatch micro = jobs::MicroBatchAt(inputs_.plan, first);
  const auto batch = batches_.find(micro.generation_batch);
  if (batch == batches_.end()) return absl::OkStatus();  // the next step samples
  return SaveGenerationBatch(dir, batch->second);
}

absl::Status GrpoTask::LoadPending(int64_t next_step, const std::string& dir) {
  const int64_t first = next_step * inputs_.plan.micro_batches_per_step;
  const jobs::MicroBatch micro = jobs::MicroBatchAt(inputs_.plan, first);
  if (micro.iteration == 0 && micro.slice == 0) return absl::OkStatus();
  TANDEM_ASSIGN_OR_RETURN(batches_[micro.generation_batch], LoadGenerationBatch(dir, micro.generation_batch));
  return absl::OkStatus();
}

}  // namespace tandem::trainer
