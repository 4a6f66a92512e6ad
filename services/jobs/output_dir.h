#pragma once
// A job's output_dir belongs to one job: the one whose job.yaml is in it. Called by the trainer at submission.

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tandem::jobs {

// Makes the directory (and its parents) if needed and writes job.yaml with the resolved job. ALREADY_EXISTS if it holds
// another job; a failure leaves nothing behind.
absl::Status ClaimOutputDir(const std::string& output_dir, absl::string_view resolved_yaml);

// Takes the claim back: removes job.yaml, and the directory if nothing else is in it. For a job that failed before its
// first step, so that it can be submitted again.
void ReleaseOutputDir(const std::string& output_dir);

}  // namespace tandem::jobs
