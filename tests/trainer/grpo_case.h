#pragma once
// A GRPO reference case: CASE.json written by tests/data/make_grpo_reference.py (or by an oracle of the same format).

#include <string>
#include <vector>

#include "services/trainer/grpo/loss.h"
#include "services/trainer/grpo/metrics.h"

namespace tandem::trainer {

struct GrpoCase {
  std::string name;
  LossOptions options;
  jobs::ScaleRewards scale = jobs::ScaleRewards::kGroup;
  int num_generations = 1;
  double temperature = 1;
  std::vector<double> reward_weights;
  std::vector<std::vector<int>> prompt_ids, completion_ids;
  std::vector<std::vector<double>> rewards;  // NaN: none
  std::vector<bool> kept;                    // false: masked as truncated
  std::vector<bool> truncated;
  std::vector<double> advantages;
  int64_t num_items_in_batch = 0;
  std::vector<std::vector<float>> old_logps;  // those of `logps` where the case has none
  std::vector<std::vector<float>> logps, entropies;
  std::vector<double> micro_batch_losses;
  double loss = 0, grad_norm = 0;
  std::map<std::string, std::vector<double>> metrics;
  bool on_policy = false;
};

GrpoCase ReadGrpoCase(const std::string& path);

// The case's rows with the given log-probabilities and entropies (borrowed), weights and advantages by our own code.
std::vector<ScoredRow> RowsOf(const GrpoCase& c, const std::vector<std::vector<float>>& logps,
                              const std::vector<std::vector<float>>& old_logps,
                              const std::vector<std::vector<float>>& entropies);

// Paths (without ".json") of the committed cases, and of the core KL-free cases under TANDEM_ORACLE_DIR/grpo if it is
// set.
std::vector<std::string> GrpoCasePaths();
// The checkpoint directory that a case was made with.
std::string ModelOf(const std::string& case_path);
// Last component of a case's path with '-' as '_', marked "oracle_" where it is not a committed one: for test names.
std::string GrpoCaseName(const std::string& case_path);

}  // namespace tandem::trainer
