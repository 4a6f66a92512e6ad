#pragma once
// The arithmetic of batches: pure functions of the job and the number of rows. GRPO's formulas are TRL's
// (GRPOConfig.__post_init__, RepeatSampler); words are those of the design: a generation batch is the completions
// sampled together, micro-batches are slices of it that define the loss.
//
// Global micro-batch m uses generation batch m / (steps_per_generation * num_iterations), slice m %
// steps_per_generation; optimizer step s (from 0) uses micro-batches s * GA up to (s + 1) * GA. For sft a "generation
// batch" is the rows of one optimizer step and num_generations is 1.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "services/jobs/job_spec.h"

namespace tandem::jobs {

struct BatchPlan {
  int64_t dataset_rows = 0;
  int64_t micro_batch_size = 0;        // per_device_train_batch_size
  int64_t micro_batches_per_step = 0;  // gradient_accumulation_steps
  int64_t steps_per_generation = 0;    // micro-batches (slices) in a generation batch
  int64_t num_iterations = 1;
  int64_t num_generations = 1;
  int64_t generation_batch_size = 0;   // completions = steps_per_generation * micro_batch_size
  int64_t prompts_per_generation = 0;  // generation_batch_size / num_generations
  int64_t completions_per_step = 0;    // micro_batch_size * micro_batches_per_step
  int64_t batches_per_epoch = 0;       // whole generation batches in the dataset; the incomplete last one is dropped
  int64_t optimizer_steps = 0;         // of the whole job
  int64_t warmup_steps = 0;
  // An optimizer step does not see its generation batch whole and first: the trainer's own forward makes `old`
  // log-probabilities before the first step on a generation batch (GA % (steps_per_generation * num_iterations) != 0).
  bool needs_old_logprobs = false;
};

int64_t StepsPerGeneration(const JobSpec& spec);
int64_t GenerationBatchSize(const JobSpec& spec);
int64_t PromptsPerGeneration(const JobSpec& spec);
int64_t CompletionsPerStep(const JobSpec& spec);
bool NeedsOldLogprobs(const JobSpec& spec);

// INVALID_ARGUMENT if the dataset has fewer rows than one generation batch.
absl::StatusOr<BatchPlan> PlanBatches(const JobSpec& spec, int64_t dataset_rows);

// Where a global micro-batch comes from.
struct MicroBatch {
  int64_t generation_batch = 0;
  int64_t iteration = 0;  // 0 .. num_iterations - 1
  int64_t slice = 0;      // rows [slice * micro_batch_size, + micro_batch_size) of the permuted generation batch
};
MicroBatch MicroBatchAt(const BatchPlan& plan, int64_t micro_batch);

// Dataset rows (prompts) of generation batch b, prompts_per_generation of them: epoch e = b / batches_per_epoch visits
// rows in PhiloxPermutation(rows, seed, e), or in file order if the job does not shuffle.
std::vector<int64_t> PromptRows(const BatchPlan& plan, const JobSpec& spec, int64_t generation_batch);

// order[i]: which completion (prompt i / num_generations, sample i % num_generations) stands at place i of the permuted
// generation batch, before it is cut into micro-batches. For sft: the identity over the rows.
std::vector<int64_t> RowOrder(const BatchPlan& plan, const JobSpec& spec, int64_t generation_batch);

}  // namespace tandem::jobs
