#include "services/client/progress_line.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tandem::client {
namespace {

std::optional<double> Find(const std::map<std::string, double>& metrics, const std::string& name) {
  const auto found = metrics.find(name);
  if (found == metrics.end()) return std::nullopt;
  return found->second;
}

}  // namespace

std::optional<double> LogprobGap(const std::map<std::string, double>& metrics) {
  return Find(metrics, "sampling/sampling_logp_difference/max");
}

std::string LiveLine(const ProgressView& view, int width) {
  std::string line = view.name;
  if (view.max_steps > 0) absl::StrAppend(&line, " step ", view.step, "/", view.max_steps);
  absl::StrAppend(&line, " ", view.stage);
  if (view.fraction > 0) absl::StrAppendFormat(&line, " %.0f%%", 100 * view.fraction);
  if (const auto reward = Find(view.metrics, "reward")) {
    absl::StrAppendFormat(&line, "  reward %.3f", *reward);
  } else if (const auto loss = Find(view.metrics, "loss")) {
    absl::StrAppendFormat(&line, "  loss %.4f", *loss);
  }
  if (const auto gap = LogprobGap(view.metrics)) absl::StrAppendFormat(&line, "  gap %.3g", *gap);
  if (view.tokens_per_second > 0) absl::StrAppendFormat(&line, "  %.0f tok/s", view.tokens_per_second);
  absl::StrAppend(&line, "  turn: ", view.turn_holder.empty() ? "nobody" : view.turn_holder);
  if (width > 0 && line.size() > static_cast<size_t>(width)) line.resize(static_cast<size_t>(width));
  return line;
}

std::string StepLine(int64_t step, int64_t max_steps, const std::map<std::string, double>& metrics) {
  std::string line = absl::StrCat("step ", step, "/", max_steps);
  for (const char* name : {"reward", "loss", "grad_norm", "learning_rate"}) {
    if (const auto value = Find(metrics, name)) absl::StrAppendFormat(&line, " %s=%.4g", name, *value);
  }
  if (const auto gap = LogprobGap(metrics)) absl::StrAppendFormat(&line, " gap=%.3g", *gap);
  return line;
}

std::string HumanBytes(uint64_t bytes) {
  constexpr std::array<const char*, 4> kUnits = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return absl::StrCat(bytes, " bytes");
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (value /= 1024; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

}  // namespace tandem::client
