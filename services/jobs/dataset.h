#pragma once
// A JSONL file: one JSON object a line, every column kept. Immutable after loading. It knows columns, not tokens
// (prompts.h).

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tandem::jobs {

struct DatasetRow {
  int64_t line = 0;     // in the file, from 1 (blank lines count)
  nlohmann::json json;  // an object
};

struct Dataset {
  std::string path;
  std::vector<DatasetRow> rows;
};

// Reads the first `max_rows` rows (0: all). INVALID_ARGUMENT names file, line and reason for a line that is no JSON
// object, is not UTF-8 or is longer than 16 MiB; NOT_FOUND a missing file. A file has at most 8 GiB and must have a
// row.
absl::StatusOr<Dataset> LoadJsonl(const std::string& path, int64_t max_rows = 0);

// INVALID_ARGUMENT names the first line without `column` and the columns that it has.
absl::Status RequireColumn(const Dataset& dataset, absl::string_view column);

}  // namespace tandem::jobs
