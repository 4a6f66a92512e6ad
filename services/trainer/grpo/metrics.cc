#include "services/trainer/grpo/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace tandem::trainer {
namespace {

struct LengthStats {
  double mean = 0, min = 0, max = 0;
};

LengthStats StatsOf(absl::Span<const int64_t> lengths) {
  if (lengths.empty()) return {};
  LengthStats out{0, static_cast<double>(lengths[0]), static_cast<double>(lengths[0])};
  for (const int64_t length : lengths) {
    out.mean += static_cast<double>(length) / static_cast<double>(lengths.size());
    out.min = std::min(out.min, static_cast<double>(length));
    out.max = std::max(out.max, static_cast<double>(length));
  }
  return out;
}

void AddKnown(Metrics& metrics, const std::string& name, double value) {
  if (!std::isnan(value)) metrics[name] = value;
}

// Sums over the tokens of one micro-batch.
struct MicroBatch {
  double loss = 0, entropy = 0;
  int64_t tokens = 0, low = 0, high = 0;
  double low_min = std::numeric_limits<double>::infinity(), high_max = -low_min;  // shares of a row's tokens

  void Add(const LossOptions& options, const ScoredRow& row) {
    if (row.masked || row.logps.empty()) return;
    int64_t row_low = 0, row_high = 0;
    for (size_t t = 0; t < row.logps.size(); ++t) {
      const TokenTerm term = ComputeTokenTerm(options, row.logps[t], row.old_logps[t], row.advantage);
      loss += row.token_weight * term.loss;
      entropy += row.entropies[t];
      row_low += term.clipped_low;
      row_high += term.clipped_high;
    }
    const auto length = static_cast<double>(row.logps.size());
    tokens += static_cast<int64_t>(row.logps.size());
    low += row_low;
    high += row_high;
    low_min = std::min(low_min, static_cast<double>(row_low) / length);
    high_max = std::max(high_max, static_cast<double>(row_high) / length);
  }
};

std::vector<MicroBatch> MicroBatchesOf(const LossOptions& options, absl::Span<const ScoredRow> rows) {
  const auto size = static_cast<size_t>(options.micro_batch_rows);
  TANDEM_CHECK(rows.size() % size == 0, rows.size(), " rows, micro-batches of ", size);
  std::vector<MicroBatch> out(rows.size() / size);
  for (size_t i = 0; i < rows.size(); ++i) out[i / size].Add(options, rows[i]);
  return out;
}

void AddSamplingGap(Metrics& metrics, absl::Span<const ScoredRow> rows) {
  double sum = 0, max = 0;
  int64_t tokens = 0;
  for (const ScoredRow& row : rows) {
    if (row.masked) continue;
    for (size_t t = 0; t < row.sampling_logps.size(); ++t) {
      const double gap = std::abs(static_cast<double>(row.old_logps[t]) - row.sampling_logps[t]);
      sum += gap;
      max = std::max(max, gap);
      ++tokens;
    }
  }
  if (tokens == 0) return;
  metrics["sampling/sampling_logp_difference/mean"] = sum / static_cast<double>(tokens);
  metrics["sampling/sampling_logp_difference/max"] = max;
}

}  // namespace

Metrics RolloutMetrics(absl::Span<const int64_t> lengths, const std::vector<bool>& truncated,
                       const std::vector<std::vector<double>>& rewards, absl::Span<const std::string> names,
                       const Advantages& advantages) {
  std::vector<int64_t> terminated;
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (!truncated[i]) terminated.push_back(lengths[i]);
  }
  const LengthStats all = StatsOf(lengths), ended = StatsOf(terminated);
  Metrics out = {
      {"completions/mean_length", all.mean},
      {"completions/min_length", all.min},
      {"completions/max_length", all.max},
      {"completions/clipped_ratio",
       lengths.empty() ? 0 : 1 - static_cast<double>(terminated.size()) / static_cast<double>(lengths.size())},
      {"completions/mean_terminated_length", ended.mean},
      {"completions/min_terminated_length", ended.min},
      {"completions/max_terminated_length", ended.max},
      {"frac_reward_zero_std", advantages.frac_reward_zero_std}};
  for (size_t f = 0; f < names.size(); ++f) {
    std::vector<double> column;
    column.reserve(rewards.size());
    for (const std::vector<double>& row : rewards) column.push_back(row[f]);
    const MeanAndStd stats = MeanAndStdOf(column);
    AddKnown(out, absl::StrCat("rewards/", names[f], "/mean"), stats.mean);
    AddKnown(out, absl::StrCat("rewards/", names[f], "/std"), stats.std);
  }
  AddKnown(out, "reward", advantages.reward_mean);
  AddKnown(out, "reward_std", advantages.reward_std);
  return out;
}

Metrics LossMetrics(const LossOptions& options, absl::Span<const ScoredRow> rows) {
  const std::vector<MicroBatch> micro_batches = MicroBatchesOf(options, rows);
  Metrics out;
  const auto count = static_cast<double>(micro_batches.size());
  for (const MicroBatch& micro : micro_batches) {
    const auto tokens = static_cast<double>(std::max<int64_t>(micro.tokens, 1));
    out["loss"] += micro.loss;
    out["entropy"] += micro.entropy / tokens / count;
    out["clip_ratio/low_mean"] += static_cast<double>(micro.low) / tokens / count;
    out["clip_ratio/high_mean"] += static_cast<double>(micro.high) / tokens / count;
    out["clip_ratio/region_mean"] += static_cast<double>(micro.low + micro.high) / tokens / count;
    if (micro.tokens > 0) {
      out["clip_ratio/low_min"] += micro.low_min / count;
      out["clip_ratio/high_max"] += micro.high_max / count;
    }
  }
  AddSamplingGap(out, rows);
  return out;
}

std::vector<double> MicroBatchLosses(const LossOptions& options, absl::Span<const ScoredRow> rows) {
  std::vector<double> out;
  for (const MicroBatch& micro : MicroBatchesOf(options, rows)) out.push_back(micro.loss);
  return out;
}

}  // namespace tandem::trainer
