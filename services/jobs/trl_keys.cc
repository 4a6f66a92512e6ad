#include "services/jobs/trl_keys.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace tandem::jobs {
namespace {

constexpr const char* kGeneration = "tandem-inference generates, with the trainer's weights";
constexpr const char* kMemory = "the trainer decides this itself";
constexpr const char* kDtype = "the dtype is that of the device: fp32 on the host";
constexpr const char* kLogging = "every step is logged to metrics.jsonl and over gRPC";
constexpr const char* kEval = "evaluation is set up by 'eval'";
constexpr const char* kNotYet = "not supported by this version";
constexpr const char* kSaving = "saving follows save_steps and save_total_limit";

constexpr TrlKey kKeys[] = {
    {"use_vllm", nullptr, kGeneration},
    {"vllm_mode", nullptr, kGeneration},
    {"vllm_model_impl", nullptr, kGeneration},
    {"vllm_gpu_memory_utilization", nullptr, kGeneration},
    {"vllm_enable_sleep_mode", nullptr, kGeneration},
    {"vllm_tensor_parallel_size", nullptr, kGeneration},
    {"vllm_max_model_length", nullptr, kGeneration},
    {"vllm_server_base_url", nullptr, kGeneration},
    {"vllm_server_host", nullptr, kGeneration},
    {"vllm_server_port", nullptr, kGeneration},
    {"vllm_server_timeout", nullptr, kGeneration},
    {"vllm_group_port", nullptr, kGeneration},
    {"vllm_importance_sampling_correction", nullptr, "sampler and trainer compute the same log-probabilities"},
    {"vllm_importance_sampling_mode", nullptr, "sampler and trainer compute the same log-probabilities"},
    {"vllm_importance_sampling_clip_max", nullptr, "sampler and trainer compute the same log-probabilities"},
    {"vllm_importance_sampling_clip_min", nullptr, "sampler and trainer compute the same log-probabilities"},
    {"vllm_importance_sampling_cap", nullptr, "sampler and trainer compute the same log-probabilities"},
    {"use_transformers_paged", nullptr, kGeneration},
    {"use_transformers_continuous_batching", nullptr, kGeneration},
    {"cache_implementation", nullptr, kGeneration},
    {"ds3_gather_for_generation", nullptr, kGeneration},
    {"gradient_checkpointing", nullptr, kMemory},
    {"gradient_checkpointing_kwargs", nullptr, kMemory},
    {"activation_offloading", nullptr, kMemory},
    {"torch_empty_cache_steps", nullptr, kMemory},
    {"use_liger_kernel", nullptr, kMemory},
    {"torch_compile", nullptr, kMemory},
    {"pad_to_multiple_of", nullptr, "sequences are packed, never padded"},
    {"padding_free", nullptr, "sequences are packed, never padded"},
    {"auto_find_batch_size", nullptr, kMemory},
    {"bf16", nullptr, kDtype},
    {"fp16", nullptr, kDtype},
    {"tf32", nullptr, kDtype},
    {"cast_lm_head_to_fp32", nullptr, kDtype},
    {"model_init_kwargs", nullptr, kDtype},
    {"report_to", nullptr, kLogging},
    {"run_name", nullptr, "the job's name is 'name'"},
    {"logging_steps", nullptr, kLogging},
    {"logging_strategy", nullptr, kLogging},
    {"logging_first_step", nullptr, kLogging},
    {"log_level", nullptr, kLogging},
    {"log_completions", nullptr, "completions are always written to output_dir/completions"},
    {"num_completions_to_print", nullptr, "completions are always written to output_dir/completions"},
    {"log_unique_prompts", nullptr, "completions are always written to output_dir/completions"},
    {"disable_tqdm", nullptr, kLogging},
    {"include_num_input_tokens_seen", nullptr, kLogging},
    {"eval_strategy", nullptr, kEval},
    {"eval_steps", nullptr, "evaluation is set up by 'eval'; use eval.eval_steps"},
    {"eval_on_start", nullptr, kEval},
    {"per_device_eval_batch_size", nullptr, kEval},
    {"num_generations_eval", nullptr, kEval},
    {"do_train", nullptr, "a job always trains"},
    {"do_eval", nullptr, kEval},
    {"save_strategy", nullptr, kSaving},
    {"save_only_model", nullptr, "checkpoints always hold what a resume needs"},
    {"save_safetensors", nullptr, "checkpoints are always safetensors"},
    {"overwrite_output_dir", nullptr, "an output_dir that holds another job is never overwritten"},
    {"resume_from_checkpoint", nullptr, "a killed job resumes by itself"},
    {"push_to_hub", "false", "push output_dir/final yourself"},
    {"load_best_model_at_end", "false", kNotYet},
    {"dataloader_num_workers", nullptr, "all prompts are tokenised at loading"},
    {"dataloader_pin_memory", nullptr, "all prompts are tokenised at loading"},
    {"dataloader_prefetch_factor", nullptr, "all prompts are tokenised at loading"},
    {"dataloader_drop_last", nullptr, "an incomplete last batch of an epoch is always dropped"},
    {"dataset_num_proc", nullptr, "all prompts are tokenised at loading"},
    {"remove_unused_columns", nullptr, "rewards see every column"},
    {"ddp_find_unused_parameters", nullptr, kMemory},
    {"ddp_timeout", nullptr, kMemory},
    {"average_tokens_across_devices", nullptr, "token counts are always those of the whole batch"},
    {"full_determinism", nullptr, "a job is always deterministic"},
    {"use_cpu", nullptr, "the device is that of the daemons"},
    {"use_bias_correction_kl", nullptr, "there is no KL term with beta 0"},
    {"disable_dropout", nullptr, "there is no dropout"},
    {"use_cache", nullptr, kMemory},
    {"max_length", nullptr, "rows are never truncated; one longer than the model's context is refused"},
    {"trust_remote_code", "false", "no code from the model's directory is run"},
    {"attn_implementation", nullptr, kMemory},
    {"torch_dtype", nullptr, kDtype},
    {"dtype", nullptr, kDtype},
    {"optim", "adamw_torch|adamw_torch_fused|adamw_hf", "the optimizer is AdamW; use adamw_torch"},
    {"optim_args", "null", kNotYet},
    {"lr_scheduler_kwargs", "null|{}", kNotYet},
    {"label_smoothing_factor", "0", kNotYet},
    {"neftune_noise_alpha", "null", kNotYet},
    {"min_p", "null|0", kNotYet},
    {"repetition_penalty", "1", kNotYet},
    {"generation_kwargs", "null", "use temperature, top_p, top_k"},
    {"chat_template_kwargs", "null", kNotYet},
    {"delta", "null", kNotYet},
    {"importance_sampling_level", "token", kNotYet},
    {"multi_objective_aggregation", "sum_then_normalize", kNotYet},
    {"reward_weights", "null", "give 'weight' in each entry of 'rewards'"},
    {"mask_truncated_completions", "false", kNotYet},
    {"sync_ref_model", "false", kNotYet},
    {"top_entropy_quantile", "1", kNotYet},
    {"entropy_coef", "0", kNotYet},
    {"use_adaptive_entropy", "false", kNotYet},
    {"off_policy_mask_threshold", "null", kNotYet},
    {"data_seed", "null", "'seed' gives the order of the data too"},
    {"packing", "false", kNotYet},
    {"completion_only_loss", "null|true", "prompt-completion rows train the completion"},
    {"assistant_only_loss", "false", kNotYet},
    {"colocate", "true", kNotYet},
    {"priority", "0|null", kNotYet},
    {"deepspeed", "null", kNotYet},
    {"fsdp", "null", kNotYet},
};

}  // namespace

const TrlKey* FindTrlKey(absl::string_view key) {
  const auto found =
      std::find_if(std::begin(kKeys), std::end(kKeys), [&](const TrlKey& entry) { return key == entry.name; });
  return found == std::end(kKeys) ? nullptr : &*found;
}

bool IsAccepted(const TrlKey& entry, absl::string_view value) {
  double number = 0;
  const bool is_number = absl::SimpleAtod(value, &number);
  for (const absl::string_view accepted : absl::StrSplit(entry.accepted, '|')) {
    double wanted = 0;
    if (absl::EqualsIgnoreCase(accepted, value)) return true;
    if (is_number && absl::SimpleAtod(accepted, &wanted) && wanted == number) return true;
  }
  return false;
}

}  // namespace tandem::jobs
