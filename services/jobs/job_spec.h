#pragma once
// The job as it runs: every key of the job file with its default. Training and sampling keys have TRL 1.16's names,
// meanings and defaults (GRPOConfig, for task sft SFTConfig) unless a comment says otherwise. A plain value: made by
// ParseJobSpec (job_spec_parser.h), which guarantees the ranges; the arithmetic of batches is in batch_plan.h.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "services/rewards/reward.h"

namespace tandem::jobs {

enum class Task { kGrpo, kSft };
enum class LossType { kDapo, kGrpo };
enum class ScaleRewards { kGroup, kBatch, kNone };
// Whether a string prompt becomes a chat: if the model has a template, always (it must have one), never.
enum class ChatMode { kAuto, kAlways, kNever };

struct DatasetSpec {
  std::string path;  // JSONL, absolute after parsing
  std::string prompt_column = "prompt";
  std::string completion_column = "completion";  // sft
  std::string system_prompt;                     // empty: none
  ChatMode chat = ChatMode::kAuto;
  std::optional<int64_t> max_prompt_length;  // rows with more prompt tokens are left out; nullopt: too long is an error
  bool operator==(const DatasetSpec&) const = default;
};

// Evaluation on held-out rows with the job's rewards; columns and chat are those of `dataset`. Runs before the first
// step, after the last, and every eval_steps.
struct EvalSpec {
  std::string path;                   // JSONL, absolute after parsing
  std::optional<int64_t> max_rows;    // the first rows of the file; nullopt: all
  int64_t eval_steps = 0;             // 0: only before the first and after the last step
  double temperature = 0.0;           // 0: greedy
  int64_t max_completion_length = 0;  // 0 in the file: as in training; never 0 after parsing
  bool operator==(const EvalSpec&) const = default;
};

struct JobSpec {
  Task task = Task::kGrpo;
  std::string name;                // default: the last component of output_dir
  std::string model_name_or_path;  // a Hugging Face directory, absolute after parsing
  std::string output_dir;          // absolute after parsing
  DatasetSpec dataset;
  std::vector<rewards::RewardSpec> rewards;  // grpo: at least one; sft: only for eval
  std::optional<EvalSpec> eval;

  // Batches. The trainer's arithmetic is in batch_plan.h.
  int64_t num_generations = 8;              // completions per prompt
  int64_t per_device_train_batch_size = 8;  // completions (sft: rows) per micro-batch
  int64_t gradient_accumulation_steps = 1;  // micro-batches per optimizer step
  // Micro-batches per generation batch; nullopt: accumulation steps. Always set by the parser, which turns the file's
  // generation_batch_size (completions) into it.
  std::optional<int64_t> steps_per_generation;
  int64_t num_iterations = 1;  // times each generation batch is used
  int64_t max_steps = -1;      // optimizer steps; -1: by num_train_epochs
  double num_train_epochs = 3.0;
  int64_t pack_tokens = 1024;  // ours: tokens that are run together; changes memory and speed, not the result
  bool shuffle_dataset = true;
  uint64_t seed = 42;

  // Sampling of rollouts.
  int64_t max_completion_length = 512;
  double temperature = 1.0;
  double top_p = 1.0;
  int64_t top_k = 0;  // 0: off

  // Optimizer: AdamW, no decay on norms and biases.
  double learning_rate = 1e-6;               // sft: 2e-5
  std::string lr_scheduler_type = "linear";  // or constant, constant_with_warmup
  double warmup_steps = 0.0;  // below 1: a share of all steps (as transformers 5); warmup_ratio is written here
  double weight_decay = 0.0;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  double max_grad_norm = 1.0;  // 0: no clipping

  // GRPO.
  double beta = 0.0;
  double epsilon = 0.2;
  std::optional<double> epsilon_high;  // nullopt: epsilon; always set by the parser
  LossType loss_type = LossType::kDapo;
  ScaleRewards scale_rewards = ScaleRewards::kGroup;

  // What is left behind.
  int64_t save_steps = 50;       // 0: only at the end. TRL: 500
  int64_t save_total_limit = 2;  // 0: keep all. TRL: none

  bool operator==(const JobSpec&) const = default;
};

// Names as the job file writes them.
const char* Name(Task task);
const char* Name(LossType loss_type);
const char* Name(ScaleRewards scale_rewards);
const char* Name(ChatMode chat);

}  // namespace tandem::jobs
