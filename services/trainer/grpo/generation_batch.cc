#include "services/trainer/grpo/generation_batch.h"

#include <cmath>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "services/trainer/sampling_seed.h"
#include "services/trainer/scoring.h"

namespace tandem::trainer {
namespace {

RolloutRequest RequestFor(const JobInputs& inputs, const Weights& weights, int64_t index,
                          absl::Span<const int64_t> prompt_rows) {
  const jobs::JobSpec& spec = inputs.spec;
  RolloutRequest request{.set_id = weights.set_id,
                         .version = weights.version,
                         .prompts = {},
                         .num_generations = static_cast<int>(spec.num_generations),
                         .temperature = spec.temperature,
                         .top_p = spec.top_p,
                         .top_k = static_cast<int>(spec.top_k),
                         .seed = SamplingSeed(spec.seed, SampleKind::kGenerationBatch, index),
                         .max_completion_length = static_cast<int>(spec.max_completion_length),
                         .stop_token_ids = inputs.end_token_ids};
  for (const int64_t row : prompt_rows) request.prompts.emplace_back(inputs.prompts[static_cast<size_t>(row)].ids);
  return request;
}

// Row of completion `i` in the order of the rollout.
jobs::CompletionRow MakeRow(const JobInputs& inputs, const RolloutRequest& request, int64_t index, int64_t prompt_row,
                            size_t i, SampledCompletion completion) {
  const jobs::Prompt& prompt = inputs.prompts[static_cast<size_t>(prompt_row)];
  jobs::CompletionRow row;
  row.generation_batch = index;
  row.prompt_row = prompt.row;
  row.group = static_cast<int64_t>(i) / request.num_generations;
  row.sample = static_cast<int64_t>(i) % request.num_generations;
  row.seed = request.seed;
  row.version = request.version;
  row.truncated = !inputs.Ended(completion.ids);
  row.prompt = prompt.text;
  row.prompt_ids = prompt.ids;
  row.completion_ids = std::move(completion.ids);
  row.logprobs = std::move(completion.logps);
  return row;
}

void AddRewards(const JobInputs& inputs, Scored scored, std::vector<jobs::CompletionRow>& rows, Metrics& metrics) {
  const jobs::JobSpec& spec = inputs.spec;
  const Advantages advantages = ComputeAdvantages(scored.rewards, inputs.reward_weights,
                                                  static_cast<int>(spec.num_generations), spec.scale_rewards);
  std::vector<int64_t> lengths;
  std::vector<bool> truncated;
  int64_t items = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    jobs::CompletionRow& row = rows[i];
    row.completion = std::move(scored.texts[i]);
    row.reward = advantages.rewards[i];
    row.advantage = advantages.advantages[i];
    for (size_t f = 0; f < inputs.reward_names.size(); ++f) {
      const double value = scored.rewards[i][f];
      row.rewards[inputs.reward_names[f]] = std::isnan(value) ? std::nullopt : std::optional<double>(value);
    }
    lengths.push_back(static_cast<int64_t>(row.completion_ids.size()));
    truncated.push_back(row.truncated);
    items += lengths.back();
  }
  for (jobs::CompletionRow& row : rows) row.num_items_in_batch = items;
  metrics = RolloutMetrics(lengths, truncated, scored.rewards, inputs.reward_names, advantages);
}

void PutInOrder(const JobInputs& inputs, GenerationBatch& batch, std::vector<jobs::CompletionRow> rows) {
  for (const int64_t source : jobs::RowOrder(inputs.plan, inputs.spec, batch.index)) {
    batch.rows.push_back(std::move(rows[static_cast<size_t>(source)]));
    batch.rows.back().place = static_cast<int64_t>(batch.rows.size()) - 1;
  }
}

std::string PathOf(const std::string& dir, int64_t index) {
  return absl::StrCat(dir, "/generation-", index, ".jsonl");
}

}  // namespace

absl::StatusOr<GenerationBatch> SampleGenerationBatch(const SamplingContext& context, const Weights& weights,
                                                      int64_t index) {
  const JobInputs& inputs = context.inputs;
  const std::vector<int64_t> prompt_rows = jobs::PromptRows(inputs.plan, inputs.spec, index);
  const RolloutRequest request = RequestFor(inputs, weights, index, prompt_rows);
  GenerationBatch batch;
  batch.index = index;
  const absl::Duration start = context.clock.Now();
  TANDEM_ASSIGN_OR_RETURN(RolloutResult result, context.rollouts.Sample(request, context.check));
  const absl::Duration sampled = context.clock.Now();
  batch.generation_seconds = result.busy_seconds;
  batch.waiting_seconds = std::max(0.0, absl::ToDoubleSeconds(sampled - start) - result.busy_seconds);

  context.progress("reward", 0, 0);
  std::vector<jobs::CompletionRow> rows;
  std::vector<const jobs::Prompt*> prompts;
  std::vector<std::vector<int>> completions;
  for (size_t i = 0; i < result.completions.size(); ++i) {
    const int64_t prompt_row = prompt_rows[i / static_cast<size_t>(request.num_generations)];
    completions.push_back(result.completions[i].ids);
    batch.tokens += static_cast<int64_t>(completions.back().size());
    prompts.push_back(&inputs.prompts[static_cast<size_t>(prompt_row)]);
    rows.push_back(MakeRow(inputs, request, index, prompt_row, i, std::move(result.completions[i])));
  }
  TANDEM_ASSIGN_OR_RETURN(Scored scored, ScoreCompletions(inputs, inputs.dataset, prompts, completions));
  AddRewards(inputs, std::move(scored), rows, batch.metrics);
  PutInOrder(inputs, batch, std::move(rows));
  batch.reward_seconds = absl::ToDoubleSeconds(context.clock.Now() - sampled);
  return batch;
}

absl::Status SaveGenerationBatch(const std::string& dir, const GenerationBatch& batch) {
  TANDEM_RETURN_IF_ERROR(jobs::WriteCompletions(dir, batch.index, batch.rows));
  std::error_code error;
  std::filesystem::rename(jobs::CompletionsPath(dir, batch.index), PathOf(dir, batch.index), error);
  if (!error) std::filesystem::remove(dir + "/completions", error);
  if (error) return absl::UnavailableError(absl::StrCat("write ", PathOf(dir, batch.index), ": ", error.message()));
  return absl::OkStatus();
}

absl::StatusOr<GenerationBatch> LoadGenerationBatch(const std::string& dir, int64_t index) {
  GenerationBatch batch;
  batch.index = index;
  TANDEM_ASSIGN_OR_RETURN(batch.rows, jobs::ReadCompletions(PathOf(dir, index)));
  return batch;
}

}  // namespace tandem::trainer
