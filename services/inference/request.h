#pragma once
// A request on its way through the engine, and the sink that its results go to. No RPC types: the service makes these.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "services/inference/sampling_params.h"

namespace tandem::inference {

// One committed state of one weight set.
struct WeightsVersion {
  uint64_t set_id = 0;
  uint64_t version = 0;
  bool operator==(const WeightsVersion&) const = default;
};

enum class FinishReason { kNone, kStop, kLength };

// One sampled token of one completion.
struct TokenEvent {
  int index = 0;  // completion of the request: prompt * n + sample
  int token = 0;
  float logprob = 0;
  uint64_t version = 0;
  FinishReason finish = FinishReason::kNone;  // of the completion that ends with this token
};

// Where results go. Called on the engine's thread: returns at once, never waits for a reader.
class RequestSink {
 public:
  virtual ~RequestSink() = default;
  // The log-probabilities of the (first) prompt's tokens from the second on, and the version they were computed with.
  // Before the first token of a request that asked for them.
  virtual void OnPromptLogprobs(std::vector<float> logprobs, uint64_t version) = 0;
  virtual void OnToken(const TokenEvent& event) = 0;
  // The last call: OK when every completion has finished. `busy` is the time in which steps worked on the request.
  virtual void OnDone(const absl::Status& status, absl::Duration busy) = 0;
  // True when nobody wants the results any more; the engine then forgets the request with the status given here.
  virtual absl::Status Abandoned() const = 0;
};

struct Request {
  uint64_t id = 0;      // given by the engine
  uint64_t set_id = 0;  // the set whose model the request was checked against
  std::vector<std::vector<int>> prompts;
  SamplingParams sampling;
  std::vector<int> end_tokens;   // sorted
  bool prompt_logprobs = false;  // with one prompt only
  // The version that every token must come from (rollouts); other requests may span versions.
  std::optional<uint64_t> pinned_version;
  absl::Duration timeout;  // longest wait for the first token
  std::shared_ptr<RequestSink> sink;
};

}  // namespace tandem::inference
