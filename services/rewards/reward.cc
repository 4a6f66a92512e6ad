#include "services/rewards/reward.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/rewards/numeric_match.h"

namespace tandem::rewards {

std::vector<std::string> RewardNames() {
  return {"numeric_match"};
}

absl::StatusOr<std::unique_ptr<Reward>> MakeReward(const RewardSpec& spec) {
  if (spec.name == "numeric_match") return MakeNumericMatch(spec);
  return absl::InvalidArgumentError(
      absl::StrCat("unknown reward '", spec.name, "'; known are: ", absl::StrJoin(RewardNames(), ", ")));
}

}  // namespace tandem::rewards
