#include "services/trainer/evaluation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "services/trainer/sampling_seed.h"
#include "services/trainer/scoring.h"

namespace tandem::trainer {
namespace {

constexpr size_t kPromptsAtOnce = 256;  // between two reports of progress

RolloutRequest RequestFor(const JobInputs& inputs, uint64_t set_id, uint64_t version, size_t begin, size_t end) {
  const jobs::EvalSpec& eval = *inputs.spec.eval;
  RolloutRequest request{.set_id = set_id,
                         .version = version,
                         .prompts = {},
                         .temperature = eval.temperature,
                         .seed = SamplingSeed(inputs.spec.seed, SampleKind::kEvaluation, static_cast<int64_t>(begin)),
                         .max_completion_length = static_cast<int>(eval.max_completion_length),
                         .stop_token_ids = inputs.end_token_ids};
  for (size_t i = begin; i < end; ++i) request.prompts.emplace_back(inputs.eval_prompts[i].ids);
  return request;
}

Evaluation Summarise(const JobInputs& inputs, const std::vector<std::vector<double>>& rewards, double tokens) {
  Evaluation out;
  out.rows = static_cast<int64_t>(rewards.size());
  const Advantages sums = ComputeAdvantages(rewards, inputs.reward_weights, 1, jobs::ScaleRewards::kNone);
  out.mean_reward = std::isnan(sums.reward_mean) ? 0 : sums.reward_mean;
  out.metrics["eval_reward"] = out.mean_reward;
  out.metrics["eval_completions/mean_length"] = tokens / static_cast<double>(std::max<int64_t>(out.rows, 1));
  for (size_t f = 0; f < inputs.reward_names.size(); ++f) {
    std::vector<double> column;
    column.reserve(rewards.size());
    for (const std::vector<double>& row : rewards) column.push_back(row[f]);
    const double mean = MeanAndStdOf(column).mean;
    if (!std::isnan(mean)) out.metrics[absl::StrCat("eval_rewards/", inputs.reward_names[f], "/mean")] = mean;
  }
  return out;
}

}  // namespace

absl::StatusOr<Evaluation> Evaluate(const JobInputs& inputs, Rollouts& rollouts, uint64_t set_id, uint64_t version,
                                    const std::function<absl::Status()>& check,
                                    const std::function<void(double fraction)>& progress) {
  std::vector<std::vector<double>> rewards;
  double tokens = 0;
  const size_t total = inputs.eval_prompts.size();
  for (size_t begin = 0; begin < total; begin += kPromptsAtOnce) {
    const size_t end = std::min(begin + kPromptsAtOnce, total);
    progress(static_cast<double>(begin) / static_cast<double>(total));
    TANDEM_ASSIGN_OR_RETURN(const RolloutResult result,
                            rollouts.Sample(RequestFor(inputs, set_id, version, begin, end), check));
    std::vector<const jobs::Prompt*> prompts;
    std::vector<std::vector<int>> completions;
    for (size_t i = begin; i < end; ++i) {
      prompts.push_back(&inputs.eval_prompts[i]);
      completions.push_back(result.completions[i - begin].ids);
      tokens += static_cast<double>(completions.back().size());
    }
    TANDEM_ASSIGN_OR_RETURN(Scored scored, ScoreCompletions(inputs, inputs.eval_dataset, prompts, completions));
    std::move(scored.rewards.begin(), scored.rewards.end(), std::back_inserter(rewards));
  }
  return Summarise(inputs, rewards, tokens);
}

}  // namespace tandem::trainer
