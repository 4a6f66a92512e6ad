#pragma once
// Sinks between the engine's thread and the thread of an RPC.
//
// CompletionStream hands tokens on as they come, at most kMaxBacklog unread: a reader slower than that is given up, so
// that its memory stays bounded. CompletionBatch collects everything for a call that answers once.

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "services/inference/request.h"

namespace tandem::inference {

class CompletionStream final : public RequestSink {
 public:
  static constexpr size_t kMaxBacklog = size_t{1} << 16;

  // What has come since the last Read.
  struct Chunk {
    std::optional<std::vector<float>> prompt_logprobs;
    uint64_t prompt_version = 0;
    std::vector<TokenEvent> tokens;
    std::optional<absl::Status> done;  // the last chunk
  };

  void OnPromptLogprobs(std::vector<float> logprobs, uint64_t version) override;
  void OnToken(const TokenEvent& event) override;
  void OnDone(const absl::Status& status, absl::Duration busy) override;
  absl::Status Abandoned() const override;

  // Waits for something to read, at most `timeout`; then the chunk may be empty.
  Chunk Read(absl::Duration timeout);
  // The reader is gone.
  void Cancel() { cancelled_ = true; }

 private:
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> overrun_{false};
  Mutex mutex_;
  CondVar changed_;
  Chunk chunk_ ABSL_GUARDED_BY(mutex_);
};

class CompletionBatch final : public RequestSink {
 public:
  struct Completion {
    std::vector<int> tokens;
    std::vector<float> logprobs;
    FinishReason finish = FinishReason::kNone;
    uint64_t version = 0;
  };

  explicit CompletionBatch(int completions) : completions_(static_cast<size_t>(completions)) {}

  void OnPromptLogprobs(std::vector<float> /*logprobs*/, uint64_t /*version*/) override {}
  void OnToken(const TokenEvent& event) override;
  void OnDone(const absl::Status& status, absl::Duration busy) override;
  absl::Status Abandoned() const override;

  // Waits for the end, at most `timeout`; nullopt while it has not come.
  std::optional<absl::Status> Wait(absl::Duration timeout);
  void Cancel() { cancelled_ = true; }
  // After Wait has given a status.
  const std::vector<Completion>& completions() const { return completions_; }
  absl::Duration busy() const { return busy_; }

 private:
  std::atomic<bool> cancelled_{false};
  std::vector<Completion> completions_;  // the engine's until done
  absl::Duration busy_;                  // likewise
  Mutex mutex_;
  CondVar changed_;
  std::optional<absl::Status> done_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tandem::inference
