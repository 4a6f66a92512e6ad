#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "services/jobs/batch_plan.h"
#include "services/jobs/job_spec_parser.h"
#include "services/jobs/yaml_lines.h"
#include "tests/testing/status_matchers.h"

namespace tandem::jobs {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kGrpo = R"(task: grpo
model_name_or_path: ./model
output_dir: ./runs/sums
dataset:
  path: ./train.jsonl
rewards:
  - {name: numeric_match}
per_device_train_batch_size: 32
)";

// kGrpo with more lines.
std::string With(const std::string& lines) {
  return absl::StrCat(kGrpo, lines, "\n");
}

std::string Errors(const ParsedJob& job) {
  return std::string(ToStatus(job.errors).message());
}

JobSpec ParseOk(const std::string& yaml) {
  const ParsedJob job = ParseJobSpec(yaml, "/base");
  EXPECT_TRUE(job.ok()) << yaml << "\n" << Errors(job);
  return job.spec;
}

auto ErrorAt(const std::string& path, const std::string& part) {
  return AllOf(Field(&FieldError::path, path), Field(&FieldError::description, HasSubstr(part)));
}

TEST(JobSpec, SmallestGrpoFileHasTrlDefaults) {
  const JobSpec spec = ParseOk(kGrpo);
  EXPECT_EQ(spec.task, Task::kGrpo);
  EXPECT_EQ(spec.name, "sums");
  EXPECT_EQ(spec.model_name_or_path, "/base/model");
  EXPECT_EQ(spec.output_dir, "/base/runs/sums");
  EXPECT_EQ(spec.dataset.path, "/base/train.jsonl");
  EXPECT_EQ(spec.dataset.prompt_column, "prompt");
  EXPECT_EQ(spec.dataset.chat, ChatMode::kAuto);
  ASSERT_EQ(spec.rewards.size(), 1);
  EXPECT_EQ(spec.rewards[0].answer_column, "answer");
  EXPECT_EQ(spec.rewards[0].weight, 1.0);
  EXPECT_EQ(spec.num_generations, 8);
  EXPECT_EQ(spec.gradient_accumulation_steps, 1);
  EXPECT_EQ(spec.steps_per_generation, 1);
  EXPECT_EQ(spec.num_iterations, 1);
  EXPECT_EQ(spec.max_steps, -1);
  EXPECT_EQ(spec.num_train_epochs, 3.0);
  EXPECT_EQ(spec.max_completion_length, 512);
  EXPECT_EQ(spec.temperature, 1.0);
  EXPECT_EQ(spec.top_p, 1.0);
  EXPECT_EQ(spec.top_k, 0);
  EXPECT_EQ(spec.learning_rate, 1e-6);
  EXPECT_EQ(spec.warmup_steps, 0);
  EXPECT_EQ(spec.weight_decay, 0.0);
  EXPECT_EQ(spec.adam_beta1, 0.9);
  EXPECT_EQ(spec.adam_beta2, 0.999);
  EXPECT_EQ(spec.adam_epsilon, 1e-8);
  EXPECT_EQ(spec.max_grad_norm, 1.0);
  EXPECT_EQ(spec.beta, 0.0);
  EXPECT_EQ(spec.epsilon, 0.2);
  EXPECT_EQ(spec.epsilon_high, 0.2);
  EXPECT_EQ(spec.loss_type, LossType::kDapo);
  EXPECT_EQ(spec.scale_rewards, ScaleRewards::kGroup);
  EXPECT_EQ(spec.seed, 42u);
  EXPECT_TRUE(spec.shuffle_dataset);
  EXPECT_EQ(spec.save_steps, 50);
  EXPECT_EQ(spec.save_total_limit, 2);
  EXPECT_FALSE(spec.eval.has_value());
}

TEST(JobSpec, SftHasItsOwnLearningRateAndNeedsNoRewards) {
  const JobSpec spec = ParseOk("{task: sft, model_name_or_path: m, output_dir: o, dataset: {path: d}}");
  EXPECT_EQ(spec.learning_rate, 2e-5);
  EXPECT_EQ(spec.dataset.completion_column, "completion");
  EXPECT_THAT(spec.rewards, IsEmpty());
}

TEST(JobSpec, EveryKeyIsRead) {
  const JobSpec spec = ParseOk(R"(
task: grpo
name: all keys
model_name_or_path: /models/a/../b/
output_dir: ../runs
dataset: {path: t.jsonl, prompt_column: question, completion_column: c, system_prompt: "Say \"hi\"", chat: always, max_prompt_length: 77}
rewards: [{name: numeric_match, answer_column: sum, weight: -0.5}]
eval: {path: e.jsonl, max_rows: 200, eval_steps: 25, temperature: 0.5, max_completion_length: 99}
num_generations: 4
per_device_train_batch_size: 6
gradient_accumulation_steps: 3
generation_batch_size: 12
num_iterations: 2
max_steps: 7
num_train_epochs: 0.5
pack_tokens: 333
shuffle_dataset: false
seed: 18446744073709551615
max_completion_length: 64
temperature: 0.7
top_p: 0.9
top_k: -1
learning_rate: 3e-4
lr_scheduler_type: linear
warmup_ratio: 0.1
weight_decay: 0.01
adam_beta1: 0.8
adam_beta2: 0.95
adam_epsilon: 1.0e-6
max_grad_norm: 0
beta: 0.0
epsilon: 0.1
epsilon_high: 0.28
loss_type: grpo
scale_rewards: batch
save_steps: 5
save_total_limit: 0
)");
  EXPECT_EQ(spec.name, "all keys");
  EXPECT_EQ(spec.model_name_or_path, "/models/b");
  EXPECT_EQ(spec.output_dir, "/runs");
  EXPECT_EQ(spec.dataset, (DatasetSpec{.path = "/base/t.jsonl",
                                       .prompt_column = "question",
                                       .completion_column = "c",
                                       .system_prompt = "Say \"hi\"",
                                       .chat = ChatMode::kAlways,
                                       .max_prompt_length = 77}));
  EXPECT_EQ(spec.rewards[0], (rewards::RewardSpec{.name = "numeric_match", .answer_column = "sum", .weight = -0.5}));
  EXPECT_EQ(spec.eval, (EvalSpec{.path = "/base/e.jsonl",
                                 .max_rows = 200,
                                 .eval_steps = 25,
                                 .temperature = 0.5,
                                 .max_completion_length = 99}));
  EXPECT_EQ(spec.steps_per_generation, 2);
  EXPECT_EQ(spec.num_iterations, 2);
  EXPECT_EQ(spec.seed, 18446744073709551615u);
  EXPECT_EQ(spec.top_k, 0);
  EXPECT_EQ(spec.warmup_steps, 0.1);
  EXPECT_EQ(spec.max_grad_norm, 0.0);
  EXPECT_EQ(spec.epsilon_high, 0.28);
  EXPECT_EQ(spec.loss_type, LossType::kGrpo);
  EXPECT_EQ(spec.scale_rewards, ScaleRewards::kBatch);
  EXPECT_FALSE(spec.shuffle_dataset);
  EXPECT_EQ(ParseOk(ResolvedYaml(spec)), spec);
}

TEST(JobSpec, ScaleRewardsTakesTrlsBooleans) {
  EXPECT_EQ(ParseOk(With("scale_rewards: true")).scale_rewards, ScaleRewards::kGroup);
  EXPECT_EQ(ParseOk(With("scale_rewards: False")).scale_rewards, ScaleRewards::kNone);
  EXPECT_EQ(ParseOk(With("scale_rewards: none")).scale_rewards, ScaleRewards::kNone);
}

TEST(JobSpec, EpsilonHighFollowsEpsilon) {
  EXPECT_EQ(ParseOk(With("epsilon: 0.3")).epsilon_high, 0.3);
}

TEST(JobSpec, NullIsTheDefault) {
  EXPECT_EQ(ParseOk(With("max_steps: null\nepsilon_high: ~\neval:\nseed:")), ParseOk(kGrpo));
}

TEST(JobSpec, ResolvedYamlParsesToTheSameSpec) {
  for (const std::string& yaml :
       {std::string(kGrpo), With("learning_rate: 1.7976931348623157e-300\ntemperature: 0.1\nname: \"quote \\\" é: #\""),
        With("eval: {path: e}\nsteps_per_generation: 4\nwarmup_steps: 3"),
        std::string("{task: sft, model_name_or_path: m, output_dir: o, dataset: {path: 'a: b #c', system_prompt: "
                    "\"x\\ny\\tz\"}}"),
        std::string("{task: sft, model_name_or_path: m, output_dir: o, dataset: {path: d}, name: 'null', rewards: "
                    "[{name: numeric_match, "
                    "answer_column: 'yes'}], eval: {path: '~'}}")}) {
    const JobSpec spec = ParseOk(yaml);
    const ParsedJob again = ParseJobSpec(ResolvedYaml(spec), "/elsewhere");
    EXPECT_TRUE(again.ok()) << Errors(again) << ResolvedYaml(spec);
    EXPECT_EQ(again.spec, spec) << ResolvedYaml(spec);
  }
}

struct BadCase {
  const char* lines;  // added to kGrpo
  const char* path;
  const char* part;  // of the description
};

TEST(JobSpec, BadValuesAreNamedWithTheirFieldAndARemedy) {
  const BadCase cases[] = {
      {"num_generations: 1", "num_generations", "is 1; must be at least 2"},
      {"num_generations: x", "num_generations", "must be a whole number, is 'x'"},
      {"num_generations: 8.0", "num_generations", "must be a whole number, is '8.0'"},
      {"num_generations: [8]", "num_generations", "must be a whole number, is a list"},
      {"num_generations: 99999999999999999999", "num_generations", "must be a whole number"},
      {"gradient_accumulation_steps: 0", "gradient_accumulation_steps", "at least 1"},
      {"gradient_accumulation_steps: -3", "gradient_accumulation_steps", "is -3"},
      {"num_iterations: 0", "num_iterations", "at least 1"},
      {"max_steps: 0", "max_steps", "is 0; give at least 1"},
      {"max_steps: -2", "max_steps", "at least -1"},
      {"max_steps: 1e3", "max_steps", "whole number"},
      {"num_train_epochs: 0", "num_train_epochs", "must be above 0"},
      {"max_completion_length: 0", "max_completion_length", "at least 1"},
      {"temperature: 0", "temperature", "must be above 0"},
      {"temperature: -1", "temperature", "is -1; must be above 0"},
      {"temperature: .nan", "temperature", "must be a finite number, is '.nan'"},
      {"temperature: nan", "temperature", "must be a finite number"},
      {"temperature: .inf", "temperature", "must be a finite number"},
      {"temperature: 1e999", "temperature", "must be a finite number"},
      {"top_p: 0", "top_p", "above 0 and at most 1"},
      {"top_p: 1.01", "top_p", "above 0 and at most 1"},
      {"top_k: -2", "top_k", "at least -1"},
      {"learning_rate: -1e-6", "learning_rate", "at least 0"},
      {"learning_rate: inf", "learning_rate", "finite"},
      {"learning_rate: fast", "learning_rate", "must be a number, is 'fast'"},
      {"lr_scheduler_type: cosine", "lr_scheduler_type", "'cosine' is not supported; use linear"},
      {"warmup_steps: -1", "warmup_steps", "at least 0"},
      {"warmup_ratio: 1", "warmup_ratio", "below 1"},
      {"warmup_ratio: 0.1\nwarmup_steps: 5", "warmup_ratio", "remove one of the two"},
      {"weight_decay: -0.1", "weight_decay", "at least 0"},
      {"adam_beta1: 1", "adam_beta1", "at least 0 and below 1"},
      {"adam_beta2: 1.5", "adam_beta2", "below 1"},
      {"adam_epsilon: 0", "adam_epsilon", "above 0"},
      {"max_grad_norm: -1", "max_grad_norm", "at least 0"},
      {"beta: 0.04", "beta", "is 0.04; a KL term is not supported by this version, use 0"},
      {"epsilon: 0", "epsilon", "above 0"},
      {"epsilon_high: -0.1", "epsilon_high", "above 0"},
      {"loss_type: bnpo", "loss_type", "'bnpo' is not supported; use dapo or grpo"},
      {"scale_rewards: maybe", "scale_rewards", "'maybe' is not supported; use group or batch or none"},
      {"seed: -1", "seed", "from 0"},
      {"save_steps: -5", "save_steps", "at least 0"},
      {"shuffle_dataset: 2", "shuffle_dataset", "must be true or false, is '2'"},
      {"name: [a]", "name", "must be text, is a list"},
      {"name: \"a\\nb\"", "name", "without control characters"},
      {"num_generations: 7", "per_device_train_batch_size",
       "batch of 32 completions (32 x 1 micro-batches); must be a multiple of num_generations, 7"},
      {"generation_batch_size: 48", "generation_batch_size",
       "is 48; must be a multiple of per_device_train_batch_size, 32"},
      {"generation_batch_size: 64\nsteps_per_generation: 2", "generation_batch_size", "remove one of the two"},
      {"generation_batch_size: 32\nnum_generations: 5", "generation_batch_size",
       "must be a multiple of num_generations, 5"},
      {"steps_per_generation: 1000000", "steps_per_generation", "at most 1048576"},
      {"eval: 5", "eval", "must be a map of keys and values, is '5'"},
      {"eval: {max_rows: 1}", "eval.path", "is missing"},
      {"eval: {path: e, max_rows: 0}", "eval.max_rows", "at least 1"},
      {"eval: {path: e, temperature: -1}", "eval.temperature", "at least 0"},
      {"eval: {path: e, eval_step: 3}", "eval.eval_step", "did you mean 'eval_steps'?"},
      {"num_generation: 8", "num_generation", "unknown key 'num_generation'; did you mean 'num_generations'?"},
      {"learning_rat: 1", "learning_rat", "did you mean 'learning_rate'?"},
      {"completely_else: 1", "completely_else", "unknown key"},
      {"min_p: 0.1", "min_p", "0.1: not supported by this version"},
      {"repetition_penalty: 1.1", "repetition_penalty", "not supported"},
      {"optim: sgd", "optim", "the optimizer is AdamW"},
      {"reward_weights: [1, 2]", "reward_weights", "give 'weight' in each entry"},
      {"importance_sampling_level: sequence", "importance_sampling_level", "not supported"},
      {"mask_truncated_completions: true", "mask_truncated_completions", "not supported"},
      {"task: grpo", "task", "stands here twice"},
  };
  for (const BadCase& c : cases) {
    const ParsedJob job = ParseJobSpec(With(c.lines), "/base");
    EXPECT_THAT(job.errors, ElementsAre(ErrorAt(c.path, c.part))) << c.lines << "\n" << Errors(job);
  }
}

TEST(JobSpec, BadPartsOfTheFileAreNamed) {
  const BadCase cases[] = {
      {"{}", "task", "is missing; give grpo or sft"},
      {"task: dpo", "task", "'dpo' is not supported; use grpo or sft"},
      {"task: grpo", "model_name_or_path", "is missing"},
      {"task: grpo", "output_dir", "is missing"},
      {"task: grpo", "dataset", "is missing; give dataset.path"},
      {"task: grpo", "rewards", "is missing"},
      {"{task: grpo, rewards: []}", "rewards", "is empty"},
      {"{task: grpo, rewards: numeric_match}", "rewards", "must be a list, is 'numeric_match'"},
      {"{task: grpo, rewards: [numeric_match]}", "rewards[0]", "must be a map of keys and values, is 'numeric_match'"},
      {"{task: grpo, rewards: [{weight: 1}]}", "rewards[0].name", "is missing; give one of numeric_match"},
      {"{task: grpo, rewards: [{name: numeric_match}, {name: regex_match, pattern: a}]}", "rewards[1].name",
       "unknown reward 'regex_match'"},
      {"{task: grpo, rewards: [{name: numeric_match, pattern: a}]}", "rewards[0].pattern", "unknown key 'pattern'"},
      {"{task: grpo, rewards: [{name: numeric_match, weight: .nan}]}", "rewards[0].weight", "finite"},
      {"{task: grpo, rewards: [{name: numeric_match}, {name: numeric_match}]}", "rewards[1].name", "twice"},
      {"{task: sft, eval: {path: e}}", "rewards", "eval judges with them"},
      {"{task: sft, loss_type: dapo}", "loss_type", "use nll"},
      {"{dataset: {}}", "dataset.path", "is missing; give a JSONL file"},
      {"{dataset: x.jsonl}", "dataset", "must be a map of keys and values, is 'x.jsonl'"},
      {"{dataset: {path: x, chat: maybe}}", "dataset.chat", "'maybe' is not supported; use auto or always or never"},
      {"{dataset: {path: x, chat: never, system_prompt: s}}", "dataset.system_prompt", "needs a chat"},
      {"{dataset: {path: x, max_prompt_length: 0}}", "dataset.max_prompt_length", "at least 1"},
      {"{dataset: {path: x, promt_column: q}}", "dataset.promt_column", "did you mean 'prompt_column'?"},
      {"", "", "must be a map of keys and values, is empty"},
      {"- a\n- b", "", "is a list"},
      {"just text", "", "is 'just text'"},
      {"task: grpo\n  bad: [1", "", "line 2, column"},
      {"a: b: c", "", "line 1, column"},
      {"\tx: 1", "", "not YAML"},
  };
  for (const BadCase& c : cases) {
    const ParsedJob job = ParseJobSpec(c.lines, "/base");
    EXPECT_THAT(job.errors, Contains(ErrorAt(c.path, c.part))) << c.lines << "\n" << Errors(job);
  }
}

TEST(JobSpec, AllErrorsComeAtOnceInTheOrderOfTheText) {
  const ParsedJob job = ParseJobSpec(R"(task: grpo
temperatur: 1
rewards:
  - {name: nope}
top_p: 2
output_dir: o
model_name_or_path: m
dataset: {path: d, chat: 1}
seed: x
)",
                                     "/base");
  std::vector<std::string> paths;
  for (const FieldError& error : job.errors) paths.push_back(error.path);
  EXPECT_THAT(paths, ElementsAre("temperatur", "rewards[0].name", "top_p", "dataset.chat", "seed"));
}

TEST(JobSpec, TrlKeysWithoutMeaningGiveOneWarningEach) {
  const ParsedJob job = ParseJobSpec(
      With("use_vllm: true\nvllm_mode: colocate\nvllm_gpu_memory_utilization: 0.3\nvllm_enable_sleep_mode: true\n"
           "gradient_checkpointing: true\nreport_to: [wandb, none]\nbf16: true\nlogging_steps: 1\n"
           "optim: adamw_torch_fused\nrepetition_penalty: 1.0\nmin_p: null\nsave_steps: 5\nsave_total_limit: 1"),
      "/base");
  EXPECT_TRUE(job.ok()) << Errors(job);
  EXPECT_EQ(job.warnings.size(), 8);
  for (const char* key : {"use_vllm", "vllm_mode", "vllm_gpu_memory_utilization", "vllm_enable_sleep_mode",
                          "gradient_checkpointing", "report_to", "bf16", "logging_steps"}) {
    EXPECT_THAT(job.warnings, Contains(HasSubstr(absl::StrCat(key, " has no meaning here")))) << key;
  }
}

TEST(JobSpec, DefaultsThatDifferFromTrlAreSaid) {
  EXPECT_THAT(ParseJobSpec(kGrpo, "/base").warnings,
              ElementsAre(HasSubstr("every 50 steps"), HasSubstr("the last 2 checkpoints are kept")));
  EXPECT_THAT(ParseJobSpec(With("save_steps: 0"), "/base").warnings, IsEmpty());
  EXPECT_THAT(ParseJobSpec(With("save_steps: 500\nsave_total_limit: 0"), "/base").warnings, IsEmpty());
}

TEST(JobSpec, FewPromptsInAStepAreWarnedOf) {
  EXPECT_THAT(ParseJobSpec(With("num_generations: 16"), "/base").warnings, Contains(HasSubstr("sees 2 prompt(s)")));
  EXPECT_THAT(ParseJobSpec(kGrpo, "/base").warnings, Not(Contains(HasSubstr("prompt(s)"))));
}

TEST(JobSpec, GrpoKeysInSftAreWarnedOf) {
  const ParsedJob job = ParseJobSpec(
      "{task: sft, model_name_or_path: m, output_dir: o, dataset: {path: d}, num_generations: 4}", "/base");
  EXPECT_TRUE(job.ok()) << Errors(job);
  EXPECT_THAT(job.warnings, Contains("num_generations has no meaning for task sft"));
}

TEST(JobSpec, HostileTextsAreRefused) {
  EXPECT_FALSE(ParseJobSpec(std::string(2 << 20, 'a'), "/base").ok());
  EXPECT_FALSE(ParseJobSpec(std::string(100'000, '['), "/base").ok());
  EXPECT_FALSE(ParseJobSpec(std::string("task: \0grpo", 11), "/base").ok());
  std::string laughs = "a0: &a0 [x, x]\n";
  for (int i = 1; i < 40; ++i) absl::StrAppend(&laughs, "a", i, ": &a", i, " [*a", i - 1, ", *a", i - 1, "]\n");
  EXPECT_FALSE(ParseJobSpec(laughs, "/base").ok());
  EXPECT_FALSE(ParseJobSpec("? [a, b]\n: c\n", "/base").ok());
}

TEST(JobSpec, EveryPrefixOfAFileIsHandled) {
  const std::string text = ResolvedYaml(ParseOk(With("eval: {path: e}")));
  for (size_t size = 0; size < text.size(); ++size) {
    const ParsedJob job = ParseJobSpec(text.substr(0, size), "/base");
    for (const FieldError& error : job.errors) EXPECT_FALSE(error.description.empty());
  }
}

TEST(ToStatus, HasOneLinePerError) {
  const ParsedJob job = ParseJobSpec(With("top_p: 2\nseed: x"), "/base");
  const absl::Status status = ToStatus(job.errors);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(absl::StrSplit(status.message(), '\n'), ElementsAre(HasSubstr("top_p: is 2"), HasSubstr("seed: must")));
  EXPECT_TRUE(ToStatus({}).ok());
}

}  // namespace
}  // namespace tandem::jobs
