#include "tests/trainer/grpo_case.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "common/base/file.h"
#include "common/base/status.h"
#include "tests/testing/testing.h"

namespace tandem::trainer {
namespace {

using nlohmann::json;

std::vector<std::vector<float>> Ragged(const json& rows) {
  std::vector<std::vector<float>> out;
  for (const json& row : rows) out.push_back(row.get<std::vector<float>>());
  return out;
}

LossOptions OptionsOf(const json& config) {
  LossOptions out;
  out.type = config["loss_type"] == "grpo" ? jobs::LossType::kGrpo : jobs::LossType::kDapo;
  out.epsilon = config.value("epsilon", 0.2);
  out.epsilon_high = config.value("epsilon_high", out.epsilon);
  out.micro_batch_rows = config["per_device_train_batch_size"];
  out.gradient_accumulation_steps = config.value("gradient_accumulation_steps", 1);
  out.steps_per_generation = config.value("steps_per_generation", out.gradient_accumulation_steps);
  return out;
}

std::string OracleDir() {
  const char* dir = std::getenv("TANDEM_ORACLE_DIR");
  return dir == nullptr ? "" : dir;
}

}  // namespace

GrpoCase ReadGrpoCase(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  TANDEM_CHECK(text.ok(), text.status().ToString());
  const json j = json::parse(*text);
  const json& config = j["config"];
  GrpoCase c;
  c.name = j["case"];
  c.options = OptionsOf(config);
  const std::string scale = config.value("scale_rewards", "group");
  c.scale = scale == "group"   ? jobs::ScaleRewards::kGroup
            : scale == "batch" ? jobs::ScaleRewards::kBatch
                               : jobs::ScaleRewards::kNone;
  c.num_generations = config["num_generations"];
  c.temperature = config.value("temperature", 1.0);
  c.prompt_ids = j["prompt_ids"];
  c.completion_ids = j["completion_ids"];
  for (const json& row : j["rewards"]) {
    c.rewards.emplace_back();
    for (const json& r : row) {
      c.rewards.back().push_back(r.is_null() ? std::numeric_limits<double>::quiet_NaN() : r.get<double>());
    }
  }
  c.reward_weights = config.value("reward_weights", std::vector<double>(c.rewards[0].size(), 1.0));
  for (const int kept : j["completion_kept"].get<std::vector<int>>()) c.kept.push_back(kept != 0);
  std::vector<int> ends = j["eos_token_ids"];
  ends.push_back(j["pad_token_id"]);
  for (const std::vector<int>& ids : c.completion_ids) {
    c.truncated.push_back(std::find(ends.begin(), ends.end(), ids.back()) == ends.end());
  }
  c.advantages = j["advantages"].get<std::vector<double>>();
  c.num_items_in_batch = j["num_items_in_batch"];
  c.logps = Ragged(j["logps"]);
  c.entropies = Ragged(j["entropies"]);
  c.on_policy = j["old_logps"].is_null();
  c.old_logps = c.on_policy ? c.logps : Ragged(j["old_logps"]);
  c.micro_batch_losses = j["micro_batch_losses"].get<std::vector<double>>();
  c.loss = j["loss"];
  c.grad_norm = j["grad_norm"];
  c.metrics = j["metrics"].get<std::map<std::string, std::vector<double>>>();
  return c;
}

std::vector<ScoredRow> RowsOf(const GrpoCase& c, const std::vector<std::vector<float>>& logps,
                              const std::vector<std::vector<float>>& old_logps,
                              const std::vector<std::vector<float>>& entropies) {
  const Advantages advantages = ComputeAdvantages(c.rewards, c.reward_weights, c.num_generations, c.scale);
  std::vector<ScoredRow> rows;
  for (size_t i = 0; i < c.completion_ids.size(); ++i) {
    const int64_t length = c.kept[i] ? static_cast<int64_t>(c.completion_ids[i].size()) : 0;
    rows.push_back({.logps = logps[i],
                    .old_logps = old_logps[i],
                    .sampling_logps = {},
                    .entropies = entropies[i],
                    .advantage = advantages.advantages[i],
                    .token_weight = TokenWeight(c.options, length, c.num_items_in_batch),
                    .masked = !c.kept[i]});
  }
  return rows;
}

std::vector<std::string> GrpoCasePaths() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(testing::TestData("grpo"))) {
    if (entry.path().extension() == ".json") out.push_back(entry.path().parent_path() / entry.path().stem());
  }
  if (!OracleDir().empty()) {
    for (const char* name : {"dapo-on-policy", "grpo-on-policy", "dapo-old", "grpo-old", "dapo-steps-per-generation",
                             "grpo-steps-per-generation", "grpo-epsilon-default", "grpo-scale-batch", "grpo-scale-none",
                             "dapo-masked-truncated", "grpo-masked-truncated", "dapo-masked-truncated-accumulation",
                             "grpo-masked-truncated-accumulation", "dapo-reward-weights", "grpo-missing-rewards"}) {
      const std::string path = OracleDir() + "/grpo/" + name;
      if (std::filesystem::exists(path + ".json")) out.push_back(path);
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string ModelOf(const std::string& case_path) {
  const std::filesystem::path folder = std::filesystem::path(case_path).parent_path();
  if (folder == testing::TestData("grpo")) return folder / "model";
  return folder.parent_path() / "models" / "llama-tied";
}

std::string GrpoCaseName(const std::string& case_path) {
  const std::filesystem::path path = case_path;
  std::string name = path.filename();
  std::replace(name.begin(), name.end(), '-', '_');
  return path.parent_path() == testing::TestData("grpo") ? name : "oracle_" + name;
}

}  // namespace tandem::trainer
