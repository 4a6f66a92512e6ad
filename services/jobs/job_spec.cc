#include "services/jobs/job_spec.h"

namespace tandem::jobs {

const char* Name(Task task) {
  return task == Task::kSft ? "sft" : "grpo";
}

const char* Name(LossType loss_type) {
  return loss_type == LossType::kGrpo ? "grpo" : "dapo";
}

const char* Name(ScaleRewards scale_rewards) {
  switch (scale_rewards) {
    case ScaleRewards::kGroup:
      return "group";
    case ScaleRewards::kBatch:
      return "batch";
    case ScaleRewards::kNone:
      break;
  }
  return "none";
}

const char* Name(ChatMode chat) {
  switch (chat) {
    case ChatMode::kAuto:
      return "auto";
    case ChatMode::kAlways:
      return "always";
    case ChatMode::kNever:
      break;
  }
  return "never";
}

}  // namespace tandem::jobs
