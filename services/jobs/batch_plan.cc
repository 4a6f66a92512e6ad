#include "services/jobs/batch_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/base/philox.h"

namespace tandem::jobs {
namespace {

// Streams of PhiloxPermutation: epochs count from 0, row orders from here.
constexpr uint64_t kRowOrderStream = uint64_t{1} << 40;

bool IsSft(const JobSpec& spec) {
  return spec.task == Task::kSft;
}

int64_t NumGenerations(const JobSpec& spec) {
  return IsSft(spec) ? 1 : spec.num_generations;
}

int64_t NumIterations(const JobSpec& spec) {
  return IsSft(spec) ? 1 : spec.num_iterations;
}

// transformers' get_warmup_steps.
int64_t WarmupSteps(double warmup_steps, int64_t optimizer_steps) {
  if (warmup_steps >= 1) return static_cast<int64_t>(warmup_steps);
  return static_cast<int64_t>(std::ceil(static_cast<double>(optimizer_steps) * warmup_steps));
}

}  // namespace

int64_t StepsPerGeneration(const JobSpec& spec) {
  if (IsSft(spec)) return spec.gradient_accumulation_steps;
  return spec.steps_per_generation.value_or(spec.gradient_accumulation_steps);
}

int64_t GenerationBatchSize(const JobSpec& spec) {
  return StepsPerGeneration(spec) * spec.per_device_train_batch_size;
}

int64_t PromptsPerGeneration(const JobSpec& spec) {
  return GenerationBatchSize(spec) / NumGenerations(spec);
}

int64_t CompletionsPerStep(const JobSpec& spec) {
  return spec.per_device_train_batch_size * spec.gradient_accumulation_steps;
}

bool NeedsOldLogprobs(const JobSpec& spec) {
  if (IsSft(spec)) return false;
  return spec.gradient_accumulation_steps % (StepsPerGeneration(spec) * NumIterations(spec)) != 0;
}

absl::StatusOr<BatchPlan> PlanBatches(const JobSpec& spec, int64_t dataset_rows) {
  BatchPlan plan;
  plan.dataset_rows = dataset_rows;
  plan.micro_batch_size = spec.per_device_train_batch_size;
  plan.micro_batches_per_step = spec.gradient_accumulation_steps;
  plan.steps_per_generation = StepsPerGeneration(spec);
  plan.num_iterations = NumIterations(spec);
  plan.num_generations = NumGenerations(spec);
  plan.generation_batch_size = GenerationBatchSize(spec);
  plan.prompts_per_generation = PromptsPerGeneration(spec);
  plan.completions_per_step = CompletionsPerStep(spec);
  plan.needs_old_logprobs = NeedsOldLogprobs(spec);
  if (dataset_rows < plan.prompts_per_generation) {
    return absl::InvalidArgumentError(
        absl::StrCat("dataset.path: ", spec.dataset.path, " has ", dataset_rows, " usable rows, but one ",
                     IsSft(spec) ? "optimizer step" : "generation batch", " takes ", plan.prompts_per_generation,
                     "; add rows or lower per_device_train_batch_size or gradient_accumulation_steps"));
  }
  plan.batches_per_epoch = dataset_rows / plan.prompts_per_generation;
  if (spec.max_steps > 0) {
    plan.optimizer_steps = spec.max_steps;
  } else {
    const int64_t micro_batches = plan.batches_per_epoch * plan.steps_per_generation * plan.num_iterations;
    const double steps_per_epoch = std::ceil(static_cast<double>(micro_batches) / plan.micro_batches_per_step);
    plan.optimizer_steps = static_cast<int64_t>(std::ceil(spec.num_train_epochs * steps_per_epoch));
  }
  plan.warmup_steps = WarmupSteps(spec.warmup_steps, plan.optimizer_steps);
  return plan;
}

MicroBatch MicroBatchAt(const BatchPlan& plan, int64_t micro_batch) {
  const int64_t uses = plan.steps_per_generation * plan.num_iterations;
  const int64_t within = micro_batch % uses;
  return {.generation_batch = micro_batch / uses,
          .iteration = within / plan.steps_per_generation,
          .slice = within % plan.steps_per_generation};
}

std::vector<int64_t> PromptRows(const BatchPlan& plan, const JobSpec& spec, int64_t generation_batch) {
  const int64_t epoch = generation_batch / plan.batches_per_epoch;
  const int64_t first = generation_batch % plan.batches_per_epoch * plan.prompts_per_generation;
  std::vector<int64_t> rows(plan.prompts_per_generation);
  if (!spec.shuffle_dataset) {
    std::iota(rows.begin(), rows.end(), first);
    return rows;
  }
  const std::vector<int64_t> order = PhiloxPermutation(plan.dataset_rows, spec.seed, static_cast<uint64_t>(epoch));
  std::copy_n(order.begin() + first, rows.size(), rows.begin());
  return rows;
}

std::vector<int64_t> RowOrder(const BatchPlan& plan, const JobSpec& spec, int64_t generation_batch) {
  if (IsSft(spec)) {
    std::vector<int64_t> order(plan.generation_batch_size);
    std::iota(order.begin(), order.end(), 0);
    return order;
  }
  return PhiloxPermutation(plan.generation_batch_size, spec.seed,
                           kRowOrderStream + static_cast<uint64_t>(generation_batch));
}

}  // namespace tandem::jobs
