#pragma once
// Completions sampled by the inference service. An interface, so that the training loop knows no gRPC and tests sample
// by themselves; the client is in rollouts_service.cc.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace tandem::trainer {

struct RolloutRequest {
  uint64_t set_id = 0, version = 0;  // the weights to sample from; others are refused
  std::vector<absl::Span<const int>> prompts;
  int num_generations = 1;  // completions of each prompt
  double temperature = 1;   // 0: greedy
  double top_p = 1;
  int top_k = 0;
  uint64_t seed = 0;  // completion i of prompt p draws from (seed, p * num_generations + i)
  int max_completion_length = 16;
  std::vector<int> stop_token_ids;
};

struct SampledCompletion {
  std::vector<int> ids;      // at least one; the end token, if any, is the last
  std::vector<float> logps;  // log softmax(logits / temperature), one for each id
};

struct RolloutResult {
  std::vector<SampledCompletion> completions;  // those of a prompt next to each other
  double busy_seconds = 0;                     // in which the batch had the turn
};

class Rollouts {
 public:
  virtual ~Rollouts() = default;
  // Waits for the whole batch. While inference is away or busy the call is repeated with backoff; UNAVAILABLE or
  // DEADLINE_EXCEEDED after minutes. FAILED_PRECONDITION when a completion comes from other weights. `check` is asked
  // several times a second and ends the wait with its error. The caller does not hold the turn.
  virtual absl::StatusOr<RolloutResult> Sample(const RolloutRequest& request,
                                               const std::function<absl::Status()>& check) = 0;
  // Asks inference to retire a model of its own, so that a job's set finds room.
  virtual absl::Status ReleaseModel() = 0;
};

// Client of the inference daemon at a gRPC target.
std::unique_ptr<Rollouts> MakeRolloutsClient(const std::string& target);

}  // namespace tandem::trainer
