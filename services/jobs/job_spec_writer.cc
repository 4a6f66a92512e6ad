#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "services/jobs/batch_plan.h"
#include "services/jobs/job_spec_parser.h"

namespace tandem::jobs {
namespace {

// The shortest text that reads back as the same bits, with a point, as YAML 1.1 wants of a float.
std::string Text(double value) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value);
  std::string text(buffer, end.ptr);
  if (text.find('.') == std::string::npos) text.insert(std::min(text.find('e'), text.size()), ".0");
  return text;
}

class Writer {
 public:
  void Add(const char* key, const std::string& value) {
    out_ << YAML::Key << key << YAML::Value << YAML::DoubleQuoted << value;
  }
  void AddWord(const char* key, const std::string& word) { out_ << YAML::Key << key << YAML::Value << word; }
  void Add(const char* key, int64_t value) { AddWord(key, absl::StrCat(value)); }
  void Add(const char* key, double value) { AddWord(key, Text(value)); }
  void Add(const char* key, const std::optional<int64_t>& value) { value ? Add(key, *value) : AddNull(key); }
  void AddNull(const char* key) { out_ << YAML::Key << key << YAML::Value << YAML::Null; }
  void AddFlag(const char* key, bool value) { AddWord(key, value ? "true" : "false"); }
  void BeginMap(const char* key) { out_ << YAML::Key << key << YAML::Value << YAML::BeginMap; }
  void EndMap() { out_ << YAML::EndMap; }
  YAML::Emitter& out() { return out_; }

 private:
  YAML::Emitter out_;
};

void WriteDataset(Writer& writer, const DatasetSpec& dataset) {
  writer.BeginMap("dataset");
  writer.Add("path", dataset.path);
  writer.Add("prompt_column", dataset.prompt_column);
  writer.Add("completion_column", dataset.completion_column);
  writer.Add("system_prompt", dataset.system_prompt);
  writer.AddWord("chat", Name(dataset.chat));
  writer.Add("max_prompt_length", dataset.max_prompt_length);
  writer.EndMap();
}

void WriteRewards(Writer& writer, const std::vector<rewards::RewardSpec>& rewards) {
  writer.out() << YAML::Key << "rewards" << YAML::Value << YAML::BeginSeq;
  for (const rewards::RewardSpec& reward : rewards) {
    writer.out() << YAML::BeginMap;
    writer.AddWord("name", reward.name);
    writer.Add("answer_column", reward.answer_column);
    writer.Add("weight", reward.weight);
    writer.EndMap();
  }
  writer.out() << YAML::EndSeq;
}

void WriteEval(Writer& writer, const std::optional<EvalSpec>& eval) {
  if (!eval) return writer.AddNull("eval");
  writer.BeginMap("eval");
  writer.Add("path", eval->path);
  writer.Add("max_rows", eval->max_rows);
  writer.Add("eval_steps", eval->eval_steps);
  writer.Add("temperature", eval->temperature);
  writer.Add("max_completion_length", eval->max_completion_length);
  writer.EndMap();
}

void WriteBatches(Writer& writer, const JobSpec& spec) {
  const bool grpo = spec.task == Task::kGrpo;
  if (grpo) writer.Add("num_generations", spec.num_generations);
  writer.Add("per_device_train_batch_size", spec.per_device_train_batch_size);
  writer.Add("gradient_accumulation_steps", spec.gradient_accumulation_steps);
  if (grpo) writer.Add("steps_per_generation", StepsPerGeneration(spec));
  if (grpo) writer.Add("num_iterations", spec.num_iterations);
  writer.Add("max_steps", spec.max_steps);
  writer.Add("num_train_epochs", spec.num_train_epochs);
  writer.Add("pack_tokens", spec.pack_tokens);
  writer.AddFlag("shuffle_dataset", spec.shuffle_dataset);
  writer.AddWord("seed", absl::StrCat(spec.seed));
}

void WriteTraining(Writer& writer, const JobSpec& spec) {
  writer.Add("max_completion_length", spec.max_completion_length);
  writer.Add("temperature", spec.temperature);
  writer.Add("top_p", spec.top_p);
  writer.Add("top_k", spec.top_k);
  writer.Add("learning_rate", spec.learning_rate);
  writer.AddWord("lr_scheduler_type", spec.lr_scheduler_type);
  writer.Add("warmup_steps", spec.warmup_steps);
  writer.Add("weight_decay", spec.weight_decay);
  writer.Add("adam_beta1", spec.adam_beta1);
  writer.Add("adam_beta2", spec.adam_beta2);
  writer.Add("adam_epsilon", spec.adam_epsilon);
  writer.Add("max_grad_norm", spec.max_grad_norm);
  if (spec.task == Task::kGrpo) {
    writer.Add("beta", spec.beta);
    writer.Add("epsilon", spec.epsilon);
    writer.Add("epsilon_high", spec.epsilon_high.value_or(spec.epsilon));
    writer.AddWord("loss_type", Name(spec.loss_type));
    writer.AddWord("scale_rewards", Name(spec.scale_rewards));
  }
  writer.Add("save_steps", spec.save_steps);
  writer.Add("save_total_limit", spec.save_total_limit);
}

}  // namespace

std::string ResolvedYaml(const JobSpec& spec) {
  Writer writer;
  writer.out() << YAML::BeginMap;
  writer.AddWord("task", Name(spec.task));
  writer.Add("name", spec.name);
  writer.Add("model_name_or_path", spec.model_name_or_path);
  writer.Add("output_dir", spec.output_dir);
  WriteDataset(writer, spec.dataset);
  WriteRewards(writer, spec.rewards);
  WriteEval(writer, spec.eval);
  WriteBatches(writer, spec);
  WriteTraining(writer, spec);
  writer.EndMap();
  return absl::StrCat(writer.out().c_str(), "\n");
}

}  // namespace tandem::jobs
