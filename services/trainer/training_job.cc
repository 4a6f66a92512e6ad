#include "services/trainer/training_job.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "services/checkpoint/checkpoint.h"
#include "services/jobs/completions_log.h"
#include "services/jobs/metrics_log.h"
#include "services/trainer/evaluation.h"
#include "services/trainer/step/lr_schedule.h"
#include "services/trainer/step/moments_file.h"

namespace tandem::trainer {
namespace {

constexpr absl::Duration kLastTurnTimeout = absl::Seconds(30);

double Seconds(absl::Duration duration) {
  return absl::ToDoubleSeconds(duration);
}

}  // namespace

TrainingJob::TrainingJob(const Surroundings& around, const jobs::JobRecord& record, const jobs::RunControl& control)
    : around_(around),
      record_(record),
      control_(control),
      check_([this]() -> absl::Status {
        if (around_.session.arbiter_gone()) return absl::UnavailableError("the arbiter is gone, and with it the pool");
        return control_.Check();
      }),
      progress_([this](const char* phase, double fraction, double tokens_per_second) {
        Report(phase, fraction, tokens_per_second);
      }),
      summary_(record.summary) {}

absl::Status TrainingJob::Run() {
  absl::Status outcome = Load();
  if (outcome.ok()) outcome = MakeMemory();
  if (outcome.ok()) outcome = LoadState();
  if (outcome.ok()) outcome = CommitLoaded();
  if (outcome.ok()) outcome = MarkRunning();
  while (outcome.ok() && step_ < inputs_->plan.optimizer_steps) outcome = TrainStep(step_);
  if (memory_ != nullptr && memory_->set_id() != 0) EndServing(outcome);
  return outcome;
}

void TrainingJob::Report(const char* phase, double fraction, double tokens_per_second) {
  around_.store.SetProgress(
      record_.id, {.step = step_, .phase = phase, .fraction = fraction, .tokens_per_second = tokens_per_second});
}

void TrainingJob::Log(const char* level, const std::string& text) {
  LOG_INFO("job {}: {}", record_.id, text);
  if (const absl::Status stored = around_.store.RecordLog(record_.id, {level, text}); !stored.ok()) {
    LOG_WARN("job {}: {}", record_.id, stored.ToString());
  }
}

std::string TrainingJob::Note(int64_t step, bool ended) const {
  return nlohmann::json({{"job", record_.id}, {"step", step}, {"ended", ended}}).dump();
}

double TrainingJob::LearningRate(int64_t step) const {
  const std::string& type = inputs_->spec.lr_scheduler_type;
  if (type == "constant") return ConstantLearningRate(inputs_->spec.learning_rate, step, 0);
  if (type == "constant_with_warmup") {
    return ConstantLearningRate(inputs_->spec.learning_rate, step, inputs_->plan.warmup_steps);
  }
  return LinearLearningRate(inputs_->spec.learning_rate, step, inputs_->plan.warmup_steps,
                            inputs_->plan.optimizer_steps);
}

// ---------------------------------------------------------------- a step

absl::Status TrainingJob::TrainStep(int64_t step) {
  const absl::Duration start = around_.clock.Now();
  const double switch_before = turn_->switch_seconds();
  const uint64_t turns_before = turn_->turns();
  TANDEM_RETURN_IF_ERROR(check_());
  TANDEM_RETURN_IF_ERROR(task_->Prepare(step, weights_));
  Report("waiting", 0, 0);
  TANDEM_RETURN_IF_ERROR(turn_->Acquire());
  Report("train", 0, 0);
  const absl::Duration train_start = around_.clock.Now();
  const double switch_at_train = turn_->switch_seconds();
  around_.kernels.Zero(memory_->gradients().data(), static_cast<int64_t>(memory_->gradients().size()));
  TANDEM_RETURN_IF_ERROR(task_->Accumulate(step));
  const double learning_rate = LearningRate(step);
  StepReport report = task_->Report(step, learning_rate);
  TANDEM_RETURN_IF_ERROR(Update(step, learning_rate, report.metrics));
  const double train_seconds = Seconds(around_.clock.Now() - train_start) - (turn_->switch_seconds() - switch_at_train);
  TANDEM_RETURN_IF_ERROR(turn_->Yield(memory_->KeepBetweenSteps()));
  step_ = step + 1;
  ++steps_done_;

  const double switch_seconds = turn_->switch_seconds() - switch_before + report.waiting_seconds;
  report.metrics["step_time/generation"] = report.generation_seconds;
  report.metrics["step_time/reward"] = report.reward_seconds;
  report.metrics["step_time/train"] = train_seconds;
  report.metrics["step_time/switch"] = switch_seconds;
  summary_.generation_seconds += report.generation_seconds;
  summary_.reward_seconds += report.reward_seconds;
  summary_.train_seconds += train_seconds;
  summary_.switch_seconds += switch_seconds;
  summary_.turns += turn_->turns() - turns_before;
  return RecordStep(step, report, Seconds(around_.clock.Now() - start));
}

absl::Status TrainingJob::Update(int64_t step, double learning_rate, Metrics& metrics) {
  const float* gradients = memory_->gradients().data();
  const double norm = optimizer_->GradientNorm(gradients);
  if (!std::isfinite(norm)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the gradient's norm at step ", step + 1, " is ", norm,
                     ": the step is not applied; lower learning_rate, or look at the data of this step"));
  }
  metrics["grad_norm"] = norm;
  metrics["learning_rate"] = learning_rate;
  TANDEM_RETURN_IF_ERROR(turn_->BeginWrite(weights_.set_id));
  optimizer_->Step(learning_rate, step + 1, norm, gradients, memory_->weights().data(), memory_->m().data(),
                   memory_->v().data());
  TANDEM_ASSIGN_OR_RETURN(weights_.version,
                          turn_->Commit(weights_.set_id, Note(step + 1, step + 1 >= inputs_->plan.optimizer_steps)));
  return absl::OkStatus();
}

absl::Status TrainingJob::RecordStep(int64_t step, StepReport& report, double step_seconds) {
  num_tokens_ += static_cast<double>(report.tokens_trained);
  report.metrics["step_time"] = step_seconds;
  report.metrics["num_tokens"] = num_tokens_;
  summary_.tokens_trained += static_cast<uint64_t>(report.tokens_trained);
  summary_.tokens_generated += static_cast<uint64_t>(report.tokens_generated);
  ++summary_.optimizer_steps;
  ++summary_.versions;
  const uint64_t moved = around_.bytes_moved();
  summary_.bytes_moved += moved - std::min(moved, bytes_moved_before_);
  bytes_moved_before_ = moved;
  around_.metrics.OnStep(report.metrics, report.tokens_trained, step_seconds, report.metrics["step_time/switch"]);
  TANDEM_RETURN_IF_ERROR(around_.store.RecordStep(record_.id,
                                                  {.step = step + 1,
                                                   .max_steps = inputs_->plan.optimizer_steps,
                                                   .metrics = report.metrics,
                                                   .version = weights_.version},
                                                  summary_));
  if (!report.rows.empty()) {
    TANDEM_RETURN_IF_ERROR(jobs::WriteCompletions(record_.output_dir, step + 1, report.rows));
  }
  // Evaluation first: the step's line then says all of the step, and it is there before the checkpoint is.
  TANDEM_RETURN_IF_ERROR(EvaluateIfDue(step + 1, report.metrics));
  TANDEM_RETURN_IF_ERROR(
      jobs::AppendMetrics(record_.output_dir + "/metrics.jsonl", {.step = step + 1, .metrics = report.metrics}));
  return CheckpointIfDue(step + 1);
}

absl::Status TrainingJob::EvaluateIfDue(int64_t step, Metrics& metrics) {
  const std::optional<jobs::EvalSpec>& eval = inputs_->spec.eval;
  if (!eval.has_value()) return absl::OkStatus();
  const bool at_an_end = step == 0 || step == inputs_->plan.optimizer_steps;
  if (!at_an_end && (eval->eval_steps <= 0 || step % eval->eval_steps != 0)) return absl::OkStatus();
  const absl::Duration start = around_.clock.Now();
  TANDEM_ASSIGN_OR_RETURN(const Evaluation found,
                          Evaluate(*inputs_, around_.rollouts, weights_.set_id, weights_.version, check_,
                                   [this](double fraction) { Report("eval", fraction, 0); }));
  metrics.insert(found.metrics.begin(), found.metrics.end());
  return around_.store.RecordEval(record_.id, {.step = step,
                                               .rows = found.rows,
                                               .mean_reward = found.mean_reward,
                                               .seconds = Seconds(around_.clock.Now() - start)});
}

// ---------------------------------------------------------------- checkpoints and the end

absl::Status TrainingJob::CheckpointIfDue(int64_t step) {
  const int64_t every = inputs_->spec.save_steps;
  const bool last = step == inputs_->plan.optimizer_steps;
  if (!last && (every <= 0 || step % every != 0)) return absl::OkStatus();
  Report("checkpoint", 0, 0);
  TANDEM_RETURN_IF_ERROR(WriteCheckpoint(step));
  const std::string path = CheckpointPath(record_.output_dir, step);
  summary_.checkpoint = path;
  TANDEM_RETURN_IF_ERROR(around_.store.RecordCheckpoint(record_.id, {.step = step, .path = path}));
  TANDEM_RETURN_IF_ERROR(around_.store.UpdateSummary(record_.id, summary_));
  for (const int64_t removed : PruneCheckpoints(record_.output_dir, inputs_->spec.save_total_limit)) {
    TANDEM_RETURN_IF_ERROR(around_.store.ForgetCheckpoint(record_.id, removed));
  }
  return absl::OkStatus();
}

absl::Status TrainingJob::WriteCheckpoint(int64_t step) {
  CheckpointWriter writer(record_.output_dir, step);
  TANDEM_ASSIGN_OR_RETURN(const std::string dir, writer.Begin());
  TANDEM_RETURN_IF_ERROR(turn_->Acquire());
  const auto between = [this] { return turn_->BetweenUnits(memory_->KeepBetweenSteps()); };
  const absl::Status moments =
      WriteMoments(dir + "/moments.safetensors", inputs_->manifest, memory_->m(), memory_->v(), between);
  TANDEM_RETURN_IF_ERROR(turn_->Yield(memory_->KeepBetweenSteps()));
  TANDEM_RETURN_IF_ERROR(moments);
  TANDEM_RETURN_IF_ERROR(task_->SavePending(step, dir));
  const CheckpointState state{.job_id = record_.id,
                              .step = step,
                              .version = weights_.version,
                              .seed = inputs_->spec.seed,
                              .learning_rate = LearningRate(step - 1)};
  // The weights are this process's to read without the turn: nobody else writes them.
  return writer.Finish(state, [this](const std::string& path) {
    return SaveCheckpoint(path, inputs_->spec.model_name_or_path, inputs_->config, inputs_->manifest,
                          memory_->weights());
  });
}

// After a good end, or a cancel, the last version stays served, and its note says that the job is over. A failed or
// interrupted job's set is retired with its memory.
void TrainingJob::EndServing(const absl::Status& outcome) {
  if (around_.session.arbiter_gone()) return;
  if (const absl::Status yielded = turn_->Yield({}); !yielded.ok()) LOG_WARN("{}", yielded.ToString());
  if (weights_.version == 0) return;
  if (outcome.ok()) {
    served_ = memory_->KeepServing();
  } else if (absl::IsCancelled(control_.Check())) {
    if (const absl::Status committed = CommitEnded(); !committed.ok()) {
      LOG_WARN("job {}: its weights are not served on: {}", record_.id, committed.ToString());
      return;
    }
    served_ = memory_->KeepServing();
  }
}

// The same weights once more, with the note that a job which runs to its end puts on its last step.
absl::Status TrainingJob::CommitEnded() {
  TANDEM_ASSIGN_OR_RETURN(tenant::Turn turn, around_.session.RequestTurn(kLastTurnTimeout));
  TANDEM_RETURN_IF_ERROR(turn.BeginWrite(weights_.set_id));
  TANDEM_RETURN_IF_ERROR(turn.Commit(weights_.set_id, Note(step_, true)).status());
  return turn.Yield({});
}

}  // namespace tandem::trainer
