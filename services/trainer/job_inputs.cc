#include "services/trainer/job_inputs.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "services/checkpoint/checkpoint.h"
#include "services/trainer/step/training_memory.h"

namespace tandem::trainer {
namespace {

bool IsSft(const jobs::JobSpec& spec) {
  return spec.task == jobs::Task::kSft;
}

absl::Status LoadModel(JobInputs& inputs) {
  const std::string& dir = inputs.spec.model_name_or_path;
  TANDEM_ASSIGN_OR_RETURN(inputs.config, LoadModelConfig(dir));
  inputs.manifest = MakeWeightManifest(inputs.config);
  TANDEM_RETURN_IF_ERROR(CheckWeightFiles(dir, inputs.manifest).status());
  return absl::OkStatus();
}

absl::Status LoadTokenizer(JobInputs& inputs) {
  TANDEM_ASSIGN_OR_RETURN(inputs.tokenizer, text::Tokenizer::Load(inputs.spec.model_name_or_path));
  if (inputs.tokenizer->vocab_size() > inputs.config.vocab_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        inputs.spec.model_name_or_path, ": the tokenizer has ids up to ", inputs.tokenizer->vocab_size() - 1,
        ", but vocab_size in config.json is ", inputs.config.vocab_size, ": they belong to different models"));
  }
  inputs.end_token_ids = inputs.config.eos_token_ids;
  if (const std::optional<int> eos = inputs.tokenizer->eos_token_id();
      eos.has_value() &&
      std::find(inputs.end_token_ids.begin(), inputs.end_token_ids.end(), *eos) == inputs.end_token_ids.end()) {
    inputs.end_token_ids.push_back(*eos);
  }
  return absl::OkStatus();
}

absl::Status LoadTrainingData(JobInputs& inputs) {
  const jobs::JobSpec& spec = inputs.spec;
  TANDEM_ASSIGN_OR_RETURN(inputs.dataset, jobs::LoadJsonl(spec.dataset.path));
  TANDEM_RETURN_IF_ERROR(jobs::RequireColumn(inputs.dataset, spec.dataset.prompt_column));
  return IsSft(spec) ? jobs::RequireColumn(inputs.dataset, spec.dataset.completion_column) : absl::OkStatus();
}

absl::Status LoadEvalData(JobInputs& inputs) {
  const jobs::JobSpec& spec = inputs.spec;
  if (!spec.eval.has_value()) return absl::OkStatus();
  TANDEM_ASSIGN_OR_RETURN(inputs.eval_dataset, jobs::LoadJsonl(spec.eval->path, spec.eval->max_rows.value_or(0)));
  return jobs::RequireColumn(inputs.eval_dataset, spec.dataset.prompt_column);
}

absl::Status MakeRewards(JobInputs& inputs) {
  const jobs::JobSpec& spec = inputs.spec;
  for (const rewards::RewardSpec& reward_spec : spec.rewards) {
    TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<rewards::Reward> reward, rewards::MakeReward(reward_spec));
    for (const std::string& column : reward->RequiredColumns()) {
      if (!IsSft(spec)) TANDEM_RETURN_IF_ERROR(jobs::RequireColumn(inputs.dataset, column));
      if (spec.eval.has_value()) TANDEM_RETURN_IF_ERROR(jobs::RequireColumn(inputs.eval_dataset, column));
    }
    inputs.reward_names.push_back(reward->name());
    inputs.reward_weights.push_back(reward_spec.weight);
    inputs.rewards.push_back(std::move(reward));
  }
  return absl::OkStatus();
}

absl::Status Tokenize(JobInputs& inputs, const std::function<void()>& progress) {
  const jobs::JobSpec& spec = inputs.spec;
  const int64_t context = inputs.config.max_position_embeddings;
  if (IsSft(spec)) {
    TANDEM_ASSIGN_OR_RETURN(inputs.sft_rows,
                            jobs::MakeSftRows(inputs.dataset, spec.dataset, *inputs.tokenizer, context));
    for (const jobs::SftRow& row : inputs.sft_rows) {
      inputs.longest_row = std::max(inputs.longest_row, static_cast<int64_t>(row.ids.size()) - 1);
    }
  } else {
    TANDEM_ASSIGN_OR_RETURN(inputs.prompts, jobs::MakePrompts(inputs.dataset, spec.dataset, *inputs.tokenizer, context,
                                                              spec.max_completion_length));
    for (const jobs::Prompt& prompt : inputs.prompts) {
      inputs.longest_row =
          std::max(inputs.longest_row, static_cast<int64_t>(prompt.ids.size()) + spec.max_completion_length - 1);
    }
  }
  progress();
  if (!spec.eval.has_value()) return absl::OkStatus();
  TANDEM_ASSIGN_OR_RETURN(inputs.eval_prompts, jobs::MakePrompts(inputs.eval_dataset, spec.dataset, *inputs.tokenizer,
                                                                 context, spec.eval->max_completion_length));
  progress();
  return absl::OkStatus();
}

}  // namespace

bool JobInputs::Ended(absl::Span<const int> completion) const {
  const int last = completion.back();
  return std::find(end_token_ids.begin(), end_token_ids.end(), last) != end_token_ids.end() ||
         last == tokenizer->pad_token_id();
}

absl::StatusOr<std::unique_ptr<JobInputs>> LoadJobInputs(const jobs::JobSpec& spec,
                                                         const std::function<void()>& progress) {
  auto inputs = std::make_unique<JobInputs>();
  inputs->spec = spec;
  TANDEM_RETURN_IF_ERROR(LoadModel(*inputs));
  TANDEM_RETURN_IF_ERROR(LoadTokenizer(*inputs));
  progress();
  TANDEM_RETURN_IF_ERROR(LoadTrainingData(*inputs));
  TANDEM_RETURN_IF_ERROR(LoadEvalData(*inputs));
  TANDEM_RETURN_IF_ERROR(MakeRewards(*inputs));
  progress();
  TANDEM_RETURN_IF_ERROR(Tokenize(*inputs, progress));
  const size_t rows = IsSft(spec) ? inputs->sft_rows.size() : inputs->prompts.size();
  TANDEM_ASSIGN_OR_RETURN(inputs->plan, jobs::PlanBatches(spec, static_cast<int64_t>(rows)));
  return inputs;
}

absl::StatusOr<SubmissionNotes> CheckSubmission(const jobs::JobSpec& spec, uint64_t arena_bytes, std::string& field) {
  JobInputs inputs;
  inputs.spec = spec;
  field = "model_name_or_path";
  TANDEM_RETURN_IF_ERROR(LoadModel(inputs));
  TANDEM_RETURN_IF_ERROR(LoadTokenizer(inputs));
  field = "dataset.path";
  TANDEM_RETURN_IF_ERROR(LoadTrainingData(inputs));
  field = "eval.path";
  TANDEM_RETURN_IF_ERROR(LoadEvalData(inputs));
  field = "rewards";
  TANDEM_RETURN_IF_ERROR(MakeRewards(inputs));
  field = "dataset.path";
  const auto rows = static_cast<int64_t>(inputs.dataset.rows.size());
  TANDEM_ASSIGN_OR_RETURN(const jobs::BatchPlan plan, jobs::PlanBatches(spec, rows));
  field = "model_name_or_path";
  // Without activations, which depend on the rows' lengths: those are checked at loading.
  if (arena_bytes > 0) TANDEM_RETURN_IF_ERROR(CheckFits(NeedOf(inputs.manifest, 0), arena_bytes));
  SubmissionNotes notes;
  notes.max_steps = plan.optimizer_steps;
  if (IsSft(spec)) {
    notes.info.push_back(absl::StrCat(rows, " rows, ", plan.completions_per_step, " rows per optimizer step, ",
                                      plan.optimizer_steps, " optimizer steps in all"));
    return notes;
  }
  notes.info.push_back(absl::StrCat(rows, " rows, ", plan.prompts_per_generation, " prompts per generation, ",
                                    plan.completions_per_step, " completions per optimizer step, ",
                                    plan.optimizer_steps, " optimizer steps in all"));
  return notes;
}

}  // namespace tandem::trainer
