#include "services/trainer/scoring.h"

#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace tandem::trainer {

absl::StatusOr<Scored> ScoreCompletions(const JobInputs& inputs, const jobs::Dataset& dataset,
                                        absl::Span<const jobs::Prompt* const> prompts,
                                        absl::Span<const std::vector<int>> completions) {
  Scored out;
  std::vector<std::string> prompt_texts;
  std::vector<const nlohmann::json*> rows;
  for (size_t i = 0; i < completions.size(); ++i) {
    out.texts.push_back(inputs.tokenizer->Decode(completions[i], /*skip_special_tokens=*/true));
    prompt_texts.push_back(prompts[i]->text);
    rows.push_back(&dataset.rows[static_cast<size_t>(prompts[i]->row)].json);
  }
  const rewards::RewardBatch batch{
      .prompts = prompt_texts, .completions = out.texts, .completion_ids = completions, .rows = rows};
  out.rewards.assign(completions.size(), {});
  for (const auto& reward : inputs.rewards) {
    TANDEM_ASSIGN_OR_RETURN(const std::vector<std::optional<double>> values, reward->Score(batch));
    if (values.size() != completions.size()) {
      return absl::InternalError(absl::StrCat("reward ", reward->name(), " gave ", values.size(), " values for ",
                                              completions.size(), " completions"));
    }
    for (size_t i = 0; i < values.size(); ++i) {
      out.rewards[i].push_back(values[i].value_or(std::numeric_limits<double>::quiet_NaN()));
    }
  }
  return out;
}

}  // namespace tandem::trainer
