#include "services/trainer/sft_task.h"

#include <algorithm>

#include "common/base/status.h"

namespace tandem::trainer {

absl::Status SftTask::Prepare(int64_t step, const Weights& /*weights*/) {
  rows_.clear();
  items_ = 0;
  // For SFT a generation batch is the rows of one optimizer step.
  for (const int64_t row : jobs::PromptRows(inputs_.plan, inputs_.spec, step)) {
    const jobs::SftRow& source = inputs_.sft_rows[static_cast<size_t>(row)];
    const absl::Span<const int> ids = source.ids;
    const auto start = static_cast<size_t>(std::max<int64_t>(1, source.completion_start));
    rows_.push_back({ids.subspan(0, start), ids.subspan(start)});
    items_ += static_cast<int64_t>(rows_.back().scored.size());
  }
  return absl::OkStatus();
}

absl::Status SftTask::Accumulate(int64_t /*step*/) {
  const float weight = -1.0F / static_cast<float>(items_);
  const auto gradient = [weight](size_t, const RowScores&, absl::Span<float> out) {
    std::fill(out.begin(), out.end(), weight);
  };
  TANDEM_ASSIGN_OR_RETURN(scores_, packs_.ScoreAndAccumulate(rows_, std::vector<bool>(rows_.size(), true), gradient));
  return absl::OkStatus();
}

StepReport SftTask::Report(int64_t /*step*/, double /*learning_rate*/) {
  double loss = 0, entropy = 0;
  StepReport report;
  for (size_t i = 0; i < rows_.size(); ++i) {
    for (const float logp : scores_[i].logps) loss -= logp;
    for (const float h : scores_[i].entropies) entropy += h;
    report.tokens_trained += rows_[i].input_tokens();
  }
  const auto items = static_cast<double>(std::max<int64_t>(items_, 1));
  report.metrics = {{"loss", loss / items}, {"entropy", entropy / items}};
  return report;
}

}  // namespace tandem::trainer
