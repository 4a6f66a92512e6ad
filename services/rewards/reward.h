#pragma once
// A reward judges completions. One file per reward; MakeReward is the list of all of them. Rewards know nothing of
// tokenizers, turns or training: they see text, ids and the dataset's columns. The trainer calls them from its job
// thread, one generation batch at a time, while it holds no turn.

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace tandem::rewards {

// One entry of the job file's `rewards`.
struct RewardSpec {
  std::string name;                      // "numeric_match"
  std::string answer_column = "answer";  // numeric_match: dataset column with the gold answer
  double weight = 1.0;                   // factor in the sum over rewards
  bool operator==(const RewardSpec&) const = default;
};

// A generation batch; all spans have one entry per completion. Borrowed for the call.
struct RewardBatch {
  absl::Span<const std::string> prompts;      // as text (a chat as its rendered text)
  absl::Span<const std::string> completions;  // decoded with special tokens skipped
  absl::Span<const std::vector<int>> completion_ids;
  absl::Span<const nlohmann::json* const> rows;  // the dataset's row: an object with every column
};

class Reward {
 public:
  virtual ~Reward() = default;
  // The job file's name of this reward; metrics are "rewards/NAME/mean" and ".../std".
  virtual std::string name() const = 0;
  // Dataset columns that must be there; checked when the data is loaded.
  virtual std::vector<std::string> RequiredColumns() const { return {}; }
  // One value per completion; nullopt where this reward has no opinion (TRL: None). Values are finite.
  virtual absl::StatusOr<std::vector<std::optional<double>>> Score(const RewardBatch& batch) = 0;
};

// Names that MakeReward knows.
std::vector<std::string> RewardNames();

// The reward of `spec`; INVALID_ARGUMENT names an unknown one and those known.
absl::StatusOr<std::unique_ptr<Reward>> MakeReward(const RewardSpec& spec);

}  // namespace tandem::rewards
