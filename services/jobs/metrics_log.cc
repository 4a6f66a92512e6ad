#include "services/jobs/metrics_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/unique_fd.h"

namespace tandem::jobs {
namespace {

std::string Json(const MetricsLine& line) {
  nlohmann::ordered_json json = {{"step", line.step}};
  for (const auto& [name, value] : line.metrics) json[name] = value;  // not finite: dumped as null
  return absl::StrCat(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), "\n");
}

// nullopt for a torn line.
std::optional<MetricsLine> ParseMetricsLine(absl::string_view text) {
  const nlohmann::json json = nlohmann::json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) return std::nullopt;
  MetricsLine line{.step = json["step"].get<int64_t>(), .metrics = {}};
  for (const auto& [name, value] : json.items()) {
    if (name == "step") continue;
    line.metrics[name] = value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
  }
  return line;
}

// The complete lines of the file; none if it is missing.
absl::StatusOr<std::vector<MetricsLine>> ReadComplete(const std::string& path) {
  std::vector<MetricsLine> lines;
  const absl::StatusOr<std::string> content = ReadFile(path);
  if (absl::IsNotFound(content.status())) return lines;
  TANDEM_RETURN_IF_ERROR(content.status());
  for (const absl::string_view text : absl::StrSplit(*content, '\n', absl::SkipEmpty())) {
    if (std::optional<MetricsLine> line = ParseMetricsLine(text)) lines.push_back(*std::move(line));
  }
  return lines;
}

}  // namespace

absl::Status AppendMetrics(const std::string& path, const MetricsLine& line) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
  if (!file.valid()) return ErrnoStatus(errno, "open", path);
  const std::string text = Json(line);
  const ssize_t written = write(file.get(), text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size())) return absl::OkStatus();
  return ErrnoStatus(written < 0 ? errno : ENOSPC, "write", path);
}

absl::Status TruncateMetrics(const std::string& path, int64_t step) {
  TANDEM_ASSIGN_OR_RETURN(const std::vector<MetricsLine> lines, ReadComplete(path));
  std::string kept;
  for (const MetricsLine& line : lines) {
    if (line.step <= step) absl::StrAppend(&kept, Json(line));
  }
  if (kept.empty() && access(path.c_str(), F_OK) != 0) return absl::OkStatus();
  return WriteFileAtomically(path, kept);
}

absl::StatusOr<std::vector<MetricsLine>> ReadMetrics(const std::string& path) {
  if (access(path.c_str(), R_OK) != 0) return ErrnoStatus(errno, "open", path);
  return ReadComplete(path);
}

}  // namespace tandem::jobs
