#pragma once
// A generation batch: completions sampled together from one version, judged, and put in the order in which they are cut
// into micro-batches. Made without the turn.

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "services/jobs/completions_log.h"
#include "services/trainer/grpo/metrics.h"
#include "services/trainer/job_inputs.h"
#include "services/trainer/rollouts.h"
#include "services/trainer/task.h"

namespace tandem::trainer {

struct GenerationBatch {
  int64_t index = 0;
  // [place]; the fields that belong to a use (step, iteration, micro_batch, learning_rate) are filled when a step logs
  // them. old_logprobs stay empty until the trainer's own forward has made them.
  std::vector<jobs::CompletionRow> rows;

  // What it cost and what TRL logs of it; of a batch that was just sampled only.
  Metrics metrics;
  int64_t tokens = 0;
  double generation_seconds = 0, reward_seconds = 0, waiting_seconds = 0;
};

struct SamplingContext {
  const JobInputs& inputs;
  Rollouts& rollouts;
  const Clock& clock;
  const std::function<absl::Status()>& check;
  const ProgressSink& progress;
};

// Samples and judges batch `index` with the given weights.
absl::StatusOr<GenerationBatch> SampleGenerationBatch(const SamplingContext& context, const Weights& weights,
                                                      int64_t index);

// The batch as DIR/generation-INDEX.jsonl and back, bit for bit.
absl::Status SaveGenerationBatch(const std::string& dir, const GenerationBatch& batch);
absl::StatusOr<GenerationBatch> LoadGenerationBatch(const std::string& dir, int64_t index);

}  // namespace tandem::trainer
