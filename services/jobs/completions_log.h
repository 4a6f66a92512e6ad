#pragma once
// OUTPUT_DIR/completions/step-000012.jsonl: the rows that optimizer step 12 saw, in the order it saw them, with what is
// needed to recompute the step (checkpoint before + this file = checkpoint after). Steps count from 1: step 12 leads to
// checkpoint-12. Written by the job thread, atomically; read by tests and scripts.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tandem::jobs {

// One line. Floats are written with 9 significant digits: they are read back with the same bits.
struct CompletionRow {
  int64_t step = 0;
  int64_t generation_batch = 0;
  int64_t iteration = 0;           // which use of the generation batch, from 0
  int64_t micro_batch = 0;         // within the step, from 0
  int64_t place = 0;               // in the permuted generation batch
  int64_t prompt_row = 0;          // dataset row, from 0
  int64_t group = 0;               // prompt within the generation batch, from 0
  int64_t sample = 0;              // completion of the group, from 0
  uint64_t seed = 0;               // that this completion was sampled with
  uint64_t version = 0;            // of the weights it was sampled from
  int64_t num_items_in_batch = 0;  // completion tokens of the whole generation batch (DAPO's normaliser)
  bool truncated = false;
  double learning_rate = 0;  // of this step
  double advantage = 0;
  double reward = 0;                                     // weighted sum; NaN (null) if no reward had an opinion
  std::map<std::string, std::optional<double>> rewards;  // by reward, unweighted
  std::string prompt;
  std::vector<int> prompt_ids;
  std::string completion;
  std::vector<int> completion_ids;
  std::vector<float> logprobs;      // of the sampler
  std::vector<float> old_logprobs;  // of the trainer's forward; empty (null) when the step is on policy
};

// "OUTPUT_DIR/completions/step-000012.jsonl".
std::string CompletionsPath(const std::string& output_dir, int64_t step);

absl::Status WriteCompletions(const std::string& output_dir, int64_t step, const std::vector<CompletionRow>& rows);
absl::StatusOr<std::vector<CompletionRow>> ReadCompletions(const std::string& path);

// Removes the files of steps after `step`: the job is taken up again from there.
absl::Status TruncateCompletions(const std::string& output_dir, int64_t step);

}  // namespace tandem::jobs
