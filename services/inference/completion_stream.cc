#include "services/inference/completion_stream.h"

#include <utility>

namespace tandem::inference {

void CompletionStream::OnPromptLogprobs(std::vector<float> logprobs, uint64_t version) {
  MutexLock lock(mutex_);
  chunk_.prompt_logprobs = std::move(logprobs);
  chunk_.prompt_version = version;
  changed_.NotifyAll();
}

void CompletionStream::OnToken(const TokenEvent& event) {
  MutexLock lock(mutex_);
  if (chunk_.tokens.size() >= kMaxBacklog) {
    overrun_ = true;
    return;
  }
  chunk_.tokens.push_back(event);
  changed_.NotifyAll();
}

void CompletionStream::OnDone(const absl::Status& status, absl::Duration /*busy*/) {
  MutexLock lock(mutex_);
  chunk_.done = overrun_ ? Abandoned() : status;
  changed_.NotifyAll();
}

absl::Status CompletionStream::Abandoned() const {
  if (cancelled_) return absl::CancelledError("the caller is gone");
  if (overrun_) return absl::ResourceExhaustedError("the reader is too slow: tokens came faster than they were read");
  return absl::OkStatus();
}

CompletionStream::Chunk CompletionStream::Read(absl::Duration timeout) {
  MutexLock lock(mutex_);
  if (chunk_.tokens.empty() && !chunk_.done && !chunk_.prompt_logprobs) changed_.WaitFor(mutex_, timeout);
  return std::exchange(chunk_, Chunk());
}

void CompletionBatch::OnToken(const TokenEvent& event) {
  Completion& completion = completions_[static_cast<size_t>(event.index)];
  completion.tokens.push_back(event.token);
  completion.logprobs.push_back(event.logprob);
  completion.finish = event.finish;
  completion.version = event.version;
}

void CompletionBatch::OnDone(const absl::Status& status, absl::Duration busy) {
  busy_ = busy;
  MutexLock lock(mutex_);
  done_ = status;
  changed_.NotifyAll();
}

absl::Status CompletionBatch::Abandoned() const {
  return cancelled_ ? absl::CancelledError("the caller is gone") : absl::OkStatus();
}

std::optional<absl::Status> CompletionBatch::Wait(absl::Duration timeout) {
  MutexLock lock(mutex_);
  if (!done_) changed_.WaitFor(mutex_, timeout);
  return done_;
}

}  // namespace tandem::inference
