#pragma once
// Everything that a job reads before its first step: model, tokenizer, data, rewards, and the arithmetic of its
// batches. Immutable after loading.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/checkpoint/model_config.h"
#include "services/checkpoint/weight_manifest.h"
#include "services/jobs/batch_plan.h"
#include "services/jobs/dataset.h"
#include "services/jobs/job_spec.h"
#include "services/jobs/prompts.h"
#include "services/rewards/reward.h"
#include "services/text/tokenizer.h"

namespace tandem::trainer {

struct JobInputs {
  jobs::JobSpec spec;
  ModelConfig config;
  WeightManifest manifest;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::vector<int> end_token_ids;  // those of the configs and the tokenizer's

  jobs::Dataset dataset;
  std::vector<jobs::Prompt> prompts;   // grpo
  std::vector<jobs::SftRow> sft_rows;  // sft
  jobs::Dataset eval_dataset;          // empty without `eval`
  std::vector<jobs::Prompt> eval_prompts;

  std::vector<std::unique_ptr<rewards::Reward>> rewards;
  std::vector<std::string> reward_names;
  std::vector<double> reward_weights;

  jobs::BatchPlan plan;
  int64_t longest_row = 0;  // input tokens of the longest row that a step can hold

  // Whether a completion ended by itself: its last token is an end token or pad.
  bool Ended(absl::Span<const int> completion) const;
};

// Reads all of it. Errors name the key, the file and the line; `progress` is called now and then.
absl::StatusOr<std::unique_ptr<JobInputs>> LoadJobInputs(const jobs::JobSpec& spec,
                                                         const std::function<void()>& progress);

// What a client should know of a job that was accepted.
struct SubmissionNotes {
  int64_t max_steps = 0;
  std::vector<std::string> info, warnings;
};
// The checks that are cheap at submission: model files (headers), data, batch sizes, and memory if `arena_bytes` is
// known (0: not). INVALID_ARGUMENT, NOT_FOUND or RESOURCE_EXHAUSTED; `field` is then the job file's key that it is
// about.
absl::StatusOr<SubmissionNotes> CheckSubmission(const jobs::JobSpec& spec, uint64_t arena_bytes, std::string& field);

}  // namespace tandem::trainer
