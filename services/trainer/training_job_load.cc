// The first half of a job's run: what it reads, the memory it makes, the state it starts from.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "services/checkpoint/checkpoint.h"
#include "services/jobs/completions_log.h"
#include "services/jobs/job_spec_parser.h"
#include "services/jobs/metrics_log.h"
#include "services/trainer/grpo/grpo_task.h"
#include "services/trainer/sft_task.h"
#include "services/trainer/step/moments_file.h"
#include "services/trainer/training_job.h"

namespace tandem::trainer {

absl::Status TrainingJob::Load() {
  Report("loading", 0, 0);
  jobs::ParsedJob parsed = jobs::ParseJobSpec(record_.resolved_yaml, record_.output_dir);
  TANDEM_RETURN_IF_ERROR(jobs::ToStatus(parsed.errors));
  TANDEM_ASSIGN_OR_RETURN(inputs_, LoadJobInputs(parsed.spec, [this] { around_.session.Progress(); }));
  RemoveUnfinished(record_.output_dir);
  checkpoint_ = FindLastCheckpoint(record_.output_dir, record_.id);
  step_ = checkpoint_.has_value() ? checkpoint_->state.step : 0;
  TANDEM_RETURN_IF_ERROR(jobs::TruncateMetrics(record_.output_dir + "/metrics.jsonl", step_));
  TANDEM_RETURN_IF_ERROR(jobs::TruncateCompletions(record_.output_dir, step_));
  if (record_.step > 0 || checkpoint_.has_value()) {
    TANDEM_RETURN_IF_ERROR(around_.store.ResumeFrom(record_.id, step_));
    Log("info", checkpoint_.has_value() ? absl::StrCat("taken up again from ", checkpoint_->path)
                                        : "taken up again from the start: no checkpoint was written yet");
    TANDEM_ASSIGN_OR_RETURN(const jobs::JobRecord now, around_.store.Get(record_.id));
    if (const auto tokens = now.metrics.find("num_tokens"); tokens != now.metrics.end()) num_tokens_ = tokens->second;
  }
  return check_();
}

absl::Status TrainingJob::MakeMemory() {
  const jobs::JobSpec& spec = inputs_->spec;
  transformer_ = std::make_unique<Transformer>(inputs_->config, inputs_->manifest, around_.kernels);
  const auto largest =
      static_cast<int>(LargestPack(spec.pack_tokens, inputs_->longest_row, inputs_->plan.generation_batch_size));
  if (const absl::Status released = around_.rollouts.ReleaseModel(); !released.ok()) {
    LOG_INFO("inference keeps its model: {}", released.ToString());
  }
  const MemoryNeed need = NeedOf(inputs_->manifest, transformer_->TrainWorkspaceBytes(largest, largest));
  LOG_INFO("job {}: packs of at most {} tokens; the pool holds {}", record_.id, largest, need.ToString());
  around_.make_room(need);
  const std::string label = absl::StrCat("job-", record_.id, ".", around_.session.turns());
  TANDEM_ASSIGN_OR_RETURN(memory_, TrainingMemory::Make(around_.session, label, inputs_->manifest, need));
  turn_ = std::make_unique<TurnKeeper>(around_.session, around_.clock, check_);
  const auto start = std::make_shared<absl::Duration>(around_.clock.Now());
  const auto tokens_progress = [this, start](int64_t done, int64_t total) {
    const absl::Duration now = around_.clock.Now();
    Report("train", static_cast<double>(done) / static_cast<double>(total),
           static_cast<double>(done) / std::max(1e-6, absl::ToDoubleSeconds(now - *start)));
    if (done == total) *start = now;
  };
  packs_ = std::make_unique<PackRunner>(
      *transformer_, *memory_, *turn_,
      PackRunner::Options{.pack_tokens = spec.pack_tokens,
                          .temperature = static_cast<float>(spec.task == jobs::Task::kSft ? 1.0 : spec.temperature),
                          .progress = tokens_progress});
  optimizer_ = std::make_unique<Optimizer>(around_.kernels, inputs_->manifest,
                                           OptimizerOptions{.beta1 = spec.adam_beta1,
                                                            .beta2 = spec.adam_beta2,
                                                            .epsilon = spec.adam_epsilon,
                                                            .weight_decay = spec.weight_decay,
                                                            .max_grad_norm = spec.max_grad_norm},
                                           [this] { around_.session.Progress(); });
  if (spec.task == jobs::Task::kSft) {
    task_ = std::make_unique<SftTask>(*inputs_, *packs_);
  } else {
    task_ = std::make_unique<GrpoTask>(
        GrpoTask::Surroundings{{*inputs_, around_.rollouts, around_.clock, check_, progress_}, *packs_, *memory_});
  }
  return absl::OkStatus();
}

// Weights before the set exists, so nobody reads them half loaded; moments under the turn, as they share their bytes.
absl::Status TrainingJob::LoadState() {
  const std::string& dir = checkpoint_.has_value() ? checkpoint_->path : inputs_->spec.model_name_or_path;
  TANDEM_RETURN_IF_ERROR(
      LoadWeights(dir, inputs_->config, inputs_->manifest, memory_->weights(), [this] { around_.session.Progress(); }));
  const ServedModel served{.name = absl::StrCat("job-", record_.id),
                           .model_dir = inputs_->spec.model_name_or_path,
                           .config = inputs_->config,
                           .layout_hash = inputs_->manifest.layout_hash};
  TANDEM_RETURN_IF_ERROR(memory_->CreateSet(served.name, ServedModelToJson(served)));
  weights_.set_id = memory_->set_id();
  TANDEM_RETURN_IF_ERROR(turn_->Acquire());
  if (!checkpoint_.has_value()) {
    around_.kernels.Zero(memory_->m().data(), static_cast<int64_t>(memory_->m().size()));
    around_.kernels.Zero(memory_->v().data(), static_cast<int64_t>(memory_->v().size()));
    return absl::OkStatus();
  }
  const auto between = [this] { return turn_->BetweenUnits(memory_->KeepBetweenSteps()); };
  TANDEM_RETURN_IF_ERROR(ReadMoments(checkpoint_->tandem_dir() + "/moments.safetensors", inputs_->manifest,
                                     memory_->m(), memory_->v(), between));
  return task_->LoadPending(step_, checkpoint_->tandem_dir());
}

absl::Status TrainingJob::CommitLoaded() {
  TANDEM_RETURN_IF_ERROR(turn_->BeginWrite(weights_.set_id));
  TANDEM_ASSIGN_OR_RETURN(weights_.version,
                          turn_->Commit(weights_.set_id, Note(step_, step_ >= inputs_->plan.optimizer_steps)));
  ++summary_.versions;
  TANDEM_RETURN_IF_ERROR(turn_->Yield(memory_->KeepBetweenSteps()));
  around_.set_readable();
  return absl::OkStatus();
}

absl::Status TrainingJob::MarkRunning() {
  TANDEM_RETURN_IF_ERROR(around_.store.SetState(record_.id, jobs::JobState::kRunning));
  around_.metrics.OnJobState(record_.id, "running");
  bytes_moved_before_ = around_.bytes_moved();
  if (step_ > 0) return absl::OkStatus();
  Metrics metrics;
  TANDEM_RETURN_IF_ERROR(EvaluateIfDue(0, metrics));
  if (metrics.empty()) return absl::OkStatus();
  return jobs::AppendMetrics(record_.output_dir + "/metrics.jsonl", {.step = 0, .metrics = metrics});
}

}  // namespace tandem::trainer
