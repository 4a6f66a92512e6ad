#pragma once
// The job file's text to a JobSpec and back. Called by the trainer at submission (any thread; no state), and again
// with ResolvedYaml's text when a job is resumed. It reads no file: whether paths exist is found at loading.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "services/jobs/job_spec.h"

namespace tandem::jobs {

// What is wrong with one field; `path` is dotted as in "rewards[1].pattern", empty for the whole text.
struct FieldError {
  std::string path;
  std::string description;  // names the value and the remedy; for broken YAML line and column
};

struct ParsedJob {
  JobSpec spec;                       // meaningful if there are no errors
  std::vector<std::string> warnings;  // TRL keys without meaning here, defaults that differ from TRL's, small batches
  std::vector<FieldError> errors;     // all of them, in the order of the text where it has one
  bool ok() const { return errors.empty(); }
};

// Relative paths in the text start at `base_dir`, which is absolute.
ParsedJob ParseJobSpec(absl::string_view yaml, const std::string& base_dir);

// INVALID_ARGUMENT with one line per error; OK if there are none.
absl::Status ToStatus(const std::vector<FieldError>& errors);

// The job with all defaults written out; ParseJobSpec of it gives the same spec (and the same warnings at most).
std::string ResolvedYaml(const JobSpec& spec);

}  // namespace tandem::jobs
