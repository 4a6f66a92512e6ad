#include "services/jobs/job_spec_parser.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/jobs/batch_plan.h"
#include "services/jobs/trl_keys.h"
#include "services/jobs/yaml_lines.h"
#include "services/jobs/yaml_map.h"

namespace tandem::jobs {
namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 20;
constexpr int64_t kMaxLength = 1 << 20;  // tokens of one sequence
constexpr int64_t kMaxBatch = 1 << 20;   // rows of one batch
constexpr size_t kMaxRewards = 16;
constexpr DoubleRange kNotNegative{.min = 0};
constexpr DoubleRange kPositive{.min = 0, .min_open = true};
constexpr DoubleRange kBeta{.min = 0, .max = 1, .max_open = true};

// One parse: the pieces that all parts of the file need.
struct Parse {
  JobSpec spec;
  std::vector<std::string> warnings;
  FieldErrors errors;
  std::string base_dir;
};

void ReadPath(YamlMap& map, const char* key, const std::string& base_dir, std::string* path) {
  map.Read(key, path);
  if (path->empty()) return;
  *path = (std::filesystem::path(base_dir) / *path).lexically_normal().string();
  if (path->size() > 1 && path->back() == '/') path->pop_back();
}

void ReadDataset(YamlMap& top, Parse& parse) {
  top.Require("dataset", "give dataset.path, a JSONL file");
  if (!top.Has("dataset")) return;
  YamlMap map(top.Get("dataset"), "dataset", &parse.errors);
  DatasetSpec& dataset = parse.spec.dataset;
  map.Require("path", "give a JSONL file");
  ReadPath(map, "path", parse.base_dir, &dataset.path);
  map.Read("prompt_column", &dataset.prompt_column);
  map.Read("completion_column", &dataset.completion_column);
  map.Read("system_prompt", &dataset.system_prompt);
  const ChatMode modes[] = {ChatMode::kAuto, ChatMode::kAlways, ChatMode::kNever};
  if (const auto choice = map.ReadChoice("chat", {"auto", "always", "never"})) dataset.chat = modes[*choice];
  map.Read("max_prompt_length", &dataset.max_prompt_length, {.min = 1, .max = kMaxLength});
  if (dataset.chat == ChatMode::kNever && !dataset.system_prompt.empty()) {
    map.AddError("system_prompt", "needs a chat, but chat is never; remove one of the two");
  }
  map.RefuseUnknownKeys();
}

void ReadRewards(YamlMap& top, Parse& parse) {
  const YAML::Node list = top.Get("rewards");
  if (list.IsNull()) return;
  if (!list.IsSequence()) return top.AddError("rewards", absl::StrCat("must be a list, is ", Shown(list)));
  if (list.size() > kMaxRewards) {
    return top.AddError("rewards", absl::StrCat("has ", list.size(), " entries; at most ", kMaxRewards));
  }
  for (size_t i = 0; i < list.size(); ++i) {
    YamlMap map(list[i], absl::StrCat("rewards[", i, "]"), &parse.errors);
    rewards::RewardSpec reward;
    map.Require("name", absl::StrCat("give one of ", absl::StrJoin(rewards::RewardNames(), ", ")));
    map.Read("name", &reward.name);
    map.Read("answer_column", &reward.answer_column);
    map.Read("weight", &reward.weight, {});
    if (const auto made = rewards::MakeReward(reward); !reward.name.empty() && !made.ok()) {
      map.AddError("name", std::string(made.status().message()));
      continue;  // its other keys are not ours to judge
    }
    const auto same = [&](const rewards::RewardSpec& other) { return other.name == reward.name; };
    if (std::any_of(parse.spec.rewards.begin(), parse.spec.rewards.end(), same)) {
      map.AddError("name", absl::StrCat("'", reward.name, "' stands in the list twice; remove one"));
    }
    map.RefuseUnknownKeys();
    parse.spec.rewards.push_back(std::move(reward));
  }
}

void ReadEval(YamlMap& top, Parse& parse) {
  const YAML::Node node = top.Get("eval");
  if (node.IsNull()) return;
  YamlMap map(node, "eval", &parse.errors);
  EvalSpec eval;
  map.Require("path", "give a JSONL file");
  ReadPath(map, "path", parse.base_dir, &eval.path);
  map.Read("max_rows", &eval.max_rows, {.min = 1});
  map.Read("eval_steps", &eval.eval_steps, {.min = 0});
  map.Read("temperature", &eval.temperature, {.min = 0, .max = 100});
  eval.max_completion_length = parse.spec.max_completion_length;
  map.Read("max_completion_length", &eval.max_completion_length, {.min = 1, .max = kMaxLength});
  map.RefuseUnknownKeys();
  parse.spec.eval = std::move(eval);
}

void ReadBatches(YamlMap& top, JobSpec& spec) {
  top.Read("num_generations", &spec.num_generations, {.min = 2, .max = kMaxBatch});
  top.Read("per_device_train_batch_size", &spec.per_device_train_batch_size, {.min = 1, .max = kMaxBatch});
  top.Read("gradient_accumulation_steps", &spec.gradient_accumulation_steps, {.min = 1, .max = kMaxBatch});
  top.Read("steps_per_generation", &spec.steps_per_generation, {.min = 1, .max = kMaxBatch});
  top.Read("num_iterations", &spec.num_iterations, {.min = 1, .max = 1000});
  top.Read("max_steps", &spec.max_steps, {.min = -1});
  if (spec.max_steps == 0) top.AddError("max_steps", "is 0; give at least 1, or -1 to go by num_train_epochs");
  top.Read("num_train_epochs", &spec.num_train_epochs, {.min = 0, .max = 1e6, .min_open = true});
  top.Read("pack_tokens", &spec.pack_tokens, {.min = 1, .max = kMaxLength});
  top.Read("shuffle_dataset", &spec.shuffle_dataset);
  top.Read("seed", &spec.seed);
}

void ReadSampling(YamlMap& top, JobSpec& spec) {
  top.Read("max_completion_length", &spec.max_completion_length, {.min = 1, .max = kMaxLength});
  top.Read("temperature", &spec.temperature, {.min = 0, .max = 100, .min_open = true});
  top.Read("top_p", &spec.top_p, {.min = 0, .max = 1, .min_open = true});
  top.Read("top_k", &spec.top_k, {.min = -1});
  if (spec.top_k < 0) spec.top_k = 0;
}

void ReadOptimizer(YamlMap& top, Parse& parse) {
  JobSpec& spec = parse.spec;
  if (spec.task == Task::kSft) spec.learning_rate = 2e-5;
  top.Read("learning_rate", &spec.learning_rate, {.min = 0, .max = 10});
  const std::vector<std::string> schedules = {"linear", "constant", "constant_with_warmup"};
  if (const auto choice = top.ReadChoice("lr_scheduler_type", schedules)) spec.lr_scheduler_type = schedules[*choice];
  top.Read("warmup_steps", &spec.warmup_steps, {.min = 0, .max = 1e9});
  double ratio = 0;
  top.Read("warmup_ratio", &ratio, {.min = 0, .max = 1, .max_open = true});
  if (ratio > 0 && spec.warmup_steps > 0) {
    top.AddError("warmup_ratio", "is given with warmup_steps; remove one of the two");
  } else if (ratio > 0) {
    spec.warmup_steps = ratio;
  }
  top.Read("weight_decay", &spec.weight_decay, kNotNegative);
  top.Read("adam_beta1", &spec.adam_beta1, kBeta);
  top.Read("adam_beta2", &spec.adam_beta2, kBeta);
  top.Read("adam_epsilon", &spec.adam_epsilon, kPositive);
  top.Read("max_grad_norm", &spec.max_grad_norm, kNotNegative);
  top.Read("save_steps", &spec.save_steps, {.min = 0});
  top.Read("save_total_limit", &spec.save_total_limit, {.min = 0});
  if (!top.Has("save_steps")) {
    parse.warnings.push_back(
        absl::StrCat("a checkpoint is written every ", spec.save_steps, " steps (save_steps; TRL: 500)"));
  }
  if (!top.Has("save_total_limit") && spec.save_steps > 0) {
    parse.warnings.push_back(
        absl::StrCat("the last ", spec.save_total_limit, " checkpoints are kept (save_total_limit; TRL: all)"));
  }
}

// TRL takes booleans too: true is group, false is none.
void ReadScaleRewards(YamlMap& top, JobSpec& spec) {
  const std::vector<std::string> names = {"group", "batch", "none", "true", "True", "false", "False"};
  const ScaleRewards values[] = {ScaleRewards::kGroup, ScaleRewards::kBatch, ScaleRewards::kNone, ScaleRewards::kGroup,
                                 ScaleRewards::kGroup, ScaleRewards::kNone,  ScaleRewards::kNone};
  if (const auto choice = top.ReadChoice("scale_rewards", names)) spec.scale_rewards = values[*choice];
}

void ReadGrpo(YamlMap& top, JobSpec& spec) {
  top.Read("beta", &spec.beta, kNotNegative);
  if (spec.beta != 0) {
    top.AddError("beta", absl::StrCat("is ", spec.beta, "; a KL term is not supported by this version, use 0"));
  }
  top.Read("epsilon", &spec.epsilon, kPositive);
  top.Read("epsilon_high", &spec.epsilon_high, kPositive);
  spec.epsilon_high = spec.epsilon_high.value_or(spec.epsilon);
  const bool sft = spec.task == Task::kSft;
  const auto loss =
      top.ReadChoice("loss_type", sft ? std::vector<std::string>{"nll"} : std::vector<std::string>{"dapo", "grpo"});
  if (!sft && loss) spec.loss_type = *loss == 0 ? LossType::kDapo : LossType::kGrpo;
  ReadScaleRewards(top, spec);
}

// steps_per_generation from generation_batch_size, and TRL's divisibility (GRPOConfig.__post_init__).
void CheckBatches(YamlMap& top, JobSpec& spec) {
  std::optional<int64_t> batch;
  top.Read("generation_batch_size", &batch, {.min = 1, .max = kMaxBatch});
  if (batch && top.Has("steps_per_generation")) {
    top.AddError("generation_batch_size", "is given with steps_per_generation; remove one of the two");
    batch.reset();
  }
  const int64_t rows = spec.per_device_train_batch_size;
  if (batch && *batch % rows != 0) {
    top.AddError("generation_batch_size",
                 absl::StrCat("is ", *batch, "; must be a multiple of per_device_train_batch_size, ", rows));
    batch.reset();
  }
  if (batch) spec.steps_per_generation = *batch / rows;
  spec.steps_per_generation = StepsPerGeneration(spec);
  const int64_t size = GenerationBatchSize(spec);
  if (spec.task == Task::kSft) return;
  if (size > kMaxBatch) {
    top.AddError(top.Has("steps_per_generation") ? "steps_per_generation" : "gradient_accumulation_steps",
                 absl::StrCat("makes a generation batch of ", size, " completions; at most ", kMaxBatch));
  } else if (size % spec.num_generations != 0) {
    const char* key = top.Has("generation_batch_size") ? "generation_batch_size" : "per_device_train_batch_size";
    top.AddError(key, absl::StrCat("makes a generation batch of ", size, " completions (", rows, " x ",
                                   *spec.steps_per_generation,
                                   " micro-batches); must be a multiple of num_generations, ", spec.num_generations));
  }
}

void CheckTask(YamlMap& top, Parse& parse) {
  const JobSpec& spec = parse.spec;
  if (spec.rewards.empty() && !top.Has("rewards")) {
    if (spec.task == Task::kGrpo) top.AddError("rewards", "is missing; give a list such as [{name: numeric_match}]");
    if (spec.task == Task::kSft && spec.eval) top.AddError("rewards", "is missing; eval judges with them");
  } else if (spec.rewards.empty() && top.Get("rewards").IsSequence() && top.Get("rewards").size() == 0 &&
             (spec.task == Task::kGrpo || spec.eval)) {
    top.AddError("rewards", "is empty; give at least one, such as {name: numeric_match}");
  }
  if (spec.task == Task::kSft) return;
  const int64_t prompts = CompletionsPerStep(spec) / spec.num_generations;
  if (prompts < 4) {
    parse.warnings.push_back(absl::StrCat("an optimizer step sees ", std::max<int64_t>(prompts, 1),
                                          " prompt(s); fewer than 4 make noisy steps "
                                          "(raise per_device_train_batch_size or gradient_accumulation_steps)"));
  }
}

void CheckName(YamlMap& top, JobSpec& spec) {
  top.Read("name", &spec.name);
  if (spec.name.empty()) spec.name = std::filesystem::path(spec.output_dir).filename().string();
  const bool control =
      std::any_of(spec.name.begin(), spec.name.end(), [](unsigned char c) { return c < 32 || c == 127; });
  if (spec.name.size() > 128 || control) top.AddError("name", "must be at most 128 bytes without control characters");
}

void CheckOtherKeys(YamlMap& top, Parse& parse) {
  for (const std::string& key : top.UnknownKeys()) {
    const TrlKey* entry = FindTrlKey(key);
    const YAML::Node value = entry == nullptr ? YAML::Node() : top.Get(key.c_str());
    if (entry == nullptr) {
      const std::string nearest = top.Nearest(key);
      top.AddError(key.c_str(), absl::StrCat("unknown key '", key.substr(0, 60), "'; ",
                                             nearest.empty() ? "remove it (the README lists the job file's keys)"
                                                             : absl::StrCat("did you mean '", nearest, "'?")));
    } else if (entry->accepted == nullptr) {
      parse.warnings.push_back(absl::StrCat(key, " has no meaning here: ", entry->note));
    } else {
      const std::string text = value.IsNull() ? "null" : value.IsScalar() ? value.Scalar() : Shown(value);
      if (!value.IsNull() && !IsAccepted(*entry, text)) {
        top.AddError(key.c_str(), absl::StrCat(text.substr(0, 60), ": ", entry->note));
      }
    }
  }
}

void WarnOfGrpoKeysInSft(YamlMap& top, Parse& parse) {
  if (parse.spec.task != Task::kSft) return;
  for (const char* key : {"num_generations", "steps_per_generation", "generation_batch_size", "num_iterations",
                          "epsilon", "epsilon_high", "scale_rewards", "beta"}) {
    if (top.Has(key)) parse.warnings.push_back(absl::StrCat(key, " has no meaning for task sft"));
  }
}

void ReadTop(const YAML::Node& root, Parse& parse) {
  YamlMap top(root, "", &parse.errors);
  if (!root.IsMap()) return;
  JobSpec& spec = parse.spec;
  top.Require("task", "give grpo or sft");
  if (const auto task = top.ReadChoice("task", {"grpo", "sft"})) spec.task = *task == 0 ? Task::kGrpo : Task::kSft;
  top.Require("model_name_or_path", "give a Hugging Face model directory");
  ReadPath(top, "model_name_or_path", parse.base_dir, &spec.model_name_or_path);
  top.Require("output_dir", "give a new directory for checkpoints and logs");
  ReadPath(top, "output_dir", parse.base_dir, &spec.output_dir);
  CheckName(top, spec);
  ReadDataset(top, parse);
  ReadBatches(top, spec);
  ReadSampling(top, spec);
  ReadOptimizer(top, parse);
  ReadGrpo(top, spec);
  CheckBatches(top, spec);
  ReadRewards(top, parse);
  ReadEval(top, parse);
  CheckTask(top, parse);
  WarnOfGrpoKeysInSft(top, parse);
  CheckOtherKeys(top, parse);
}

}  // namespace

ParsedJob ParseJobSpec(absl::string_view yaml, const std::string& base_dir) {
  ParsedJob result;
  if (yaml.size() > kMaxTextBytes) {
    result.errors.push_back({"", absl::StrCat("the job file has ", yaml.size(), " bytes; at most ", kMaxTextBytes)});
    return result;
  }
  if (const std::optional<YamlError> broken = FindYamlError(yaml)) {
    result.errors.push_back({"", absl::StrCat("line ", broken->place.line, ", column ", broken->place.column,
                                              ": not YAML: ", broken->description)});
    return result;
  }
  Parse parse;
  parse.base_dir = base_dir;
  try {
    ReadTop(YAML::Load(std::string(yaml)), parse);
  } catch (const YAML::Exception& e) {
    parse.errors.Add("", e.mark, absl::StrCat("not YAML: ", e.msg));
  }
  result.spec = std::move(parse.spec);
  result.warnings = std::move(parse.warnings);
  result.errors = std::move(parse.errors).InOrder();
  return result;
}

absl::Status ToStatus(const std::vector<FieldError>& errors) {
  if (errors.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(errors, "\n", [](std::string* out, const FieldError& error) {
    absl::StrAppend(out, error.path, error.path.empty() ? "" : ": ", error.description);
  }));
}

}  // namespace tandem::jobs
