#pragma once
// OUTPUT_DIR/metrics.jsonl: one JSON object a step, "step" first, then TRL's metric names. Written by the job thread.

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tandem::jobs {

struct MetricsLine {
  int64_t step = 0;
  std::map<std::string, double> metrics;  // NaN and infinities are written as null and read as NaN
};

// Adds a line. The line is complete or absent after a crash of the process.
absl::Status AppendMetrics(const std::string& path, const MetricsLine& line);

// Keeps lines up to `step` and drops later and torn ones: the job is taken up again from there. No file is fine.
absl::Status TruncateMetrics(const std::string& path, int64_t step);

absl::StatusOr<std::vector<MetricsLine>> ReadMetrics(const std::string& path);

}  // namespace tandem::jobs
