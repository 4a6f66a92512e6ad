#include "services/inference/batch_scheduler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace tandem::inference {

BatchScheduler::BatchScheduler(const SchedulerLimits& limits)
    : limits_(limits), blocks_(limits.kv_blocks, limits.block_positions) {
  TANDEM_CHECK(limits.max_batch > 0 && limits.prefill_tokens > 0 && limits.max_waiting > 0,
               "max_batch=", limits.max_batch, " prefill_tokens=", limits.prefill_tokens,
               " max_waiting=", limits.max_waiting);
}

absl::Status BatchScheduler::Add(ScheduledRequest request) {
  TANDEM_CHECK(request.n > 0 && request.max_tokens > 0 && !request.prompts.empty(), "n=", request.n,
               " max_tokens=", request.max_tokens, " prompts=", request.prompts.size());
  TANDEM_CHECK(requests_.empty() || requests_.rbegin()->first < request.id, "request ids must grow: ", request.id);
  if (waiting_requests() >= limits_.max_waiting) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the queue is full: ", limits_.max_waiting, " requests wait already; try again later"));
  }
  for (const std::vector<int>& prompt : request.prompts) {
    TANDEM_CHECK(!prompt.empty(), "empty prompt in request ", request.id);
    // The last token's keys and values are never needed.
    const int tokens = static_cast<int>(prompt.size()) + request.max_tokens - 1;
    if (blocks_.BlocksFor(tokens) <= blocks_.total()) continue;
    return absl::InvalidArgumentError(absl::StrCat("a prompt of ", prompt.size(), " tokens with max_tokens ",
                                                   request.max_tokens, " needs ", blocks_.BlocksFor(tokens),
                                                   " KV blocks, the cache has ", blocks_.total(),
                                                   ": lower max_tokens or raise kv_bytes"));
  }
  for (size_t p = 0; p < request.prompts.size(); ++p) {
    auto sequence = std::make_unique<Sequence>();
    sequence->request = request.id;
    sequence->index = static_cast<int>(p) * request.n;
    sequence->forks = request.n;
    sequence->prompt_tokens = static_cast<int>(request.prompts[p].size());
    sequence->tokens = std::move(request.prompts[p]);
    waiting_.emplace(sequence->order(), std::move(sequence));
  }
  requests_[request.id] = {.sequences = static_cast<int>(request.prompts.size()), .deadline = request.deadline};
  not_admitted_.insert(request.id);
  return absl::OkStatus();
}

void BatchScheduler::Abort(uint64_t request) {
  const Order first{request, 0};
  const Order end{request + 1, 0};
  for (auto it = running_.lower_bound(first); it != running_.lower_bound(end); it = running_.erase(it)) {
    blocks_.Release(it->second->blocks);
  }
  waiting_.erase(waiting_.lower_bound(first), waiting_.lower_bound(end));
  requests_.erase(request);
  not_admitted_.erase(request);
}

std::vector<uint64_t> BatchScheduler::Expire(absl::Duration now) {
  std::vector<uint64_t> expired;
  for (const auto& [id, state] : requests_) {
    if (!state.has_token && state.deadline <= now) expired.push_back(id);
  }
  for (const uint64_t id : expired) Abort(id);
  return expired;
}

absl::Duration BatchScheduler::next_deadline() const {
  absl::Duration earliest = absl::InfiniteDuration();
  for (const auto& [id, state] : requests_) {
    if (!state.has_token) earliest = std::min(earliest, state.deadline);
  }
  return earliest;
}

void BatchScheduler::AdmitWaiting() {
  int batch = 0;
  for (const auto& [order, sequence] : running_) batch += sequence->forks;
  while (!waiting_.empty()) {
    Sequence& first = *waiting_.begin()->second;
    const int tokens = static_cast<int>(first.tokens.size());
    if (!running_.empty()) {
      // Each further completion needs a block of its own, and one is left for each sequence's next growth, up to a
      // sixteenth of the cache: who comes in is not thrown out in the next step.
      const int reserve = std::min(batch, blocks_.total() / 16);
      if (batch + first.forks > limits_.max_batch) break;
      if (blocks_.BlocksFor(tokens) + first.forks - 1 + reserve > blocks_.free()) break;
    }
    if (!blocks_.Grow(first.blocks, tokens)) break;
    batch += first.forks;
    not_admitted_.erase(first.request);
    running_.insert(waiting_.extract(waiting_.begin()));
  }
}

void BatchScheduler::Preempt(Order order) {
  auto node = running_.extract(order);
  blocks_.Release(node.mapped()->blocks);
  node.mapped()->computed = 0;
  waiting_.insert(std::move(node));
  ++preemptions_;
}

bool BatchScheduler::MakeRoom(Sequence& sequence) {
  while (!blocks_.Grow(sequence.blocks, static_cast<int>(sequence.tokens.size()))) {
    const Order youngest = running_.rbegin()->first;
    Preempt(youngest);
    if (youngest == sequence.order()) return false;
  }
  return true;
}

std::vector<PlanPiece> BatchScheduler::Next() {
  std::vector<PlanPiece> plan;
  AdmitWaiting();
  int decode_left = limits_.max_batch;
  int prefill_left = limits_.prefill_tokens;
  // A preempted sequence is younger than the one that is looked at, so the loop has not passed it yet.
  for (auto it = running_.begin(); it != running_.end();) {
    Sequence& sequence = *it->second;
    const int remaining = sequence.remaining();
    const bool decodes = remaining == 1 && sequence.computed > 0;
    int& left = decodes ? decode_left : prefill_left;
    const int count = std::min(remaining, left);
    if (count == 0) {
      ++it;
      continue;
    }
    if (!MakeRoom(sequence)) break;  // it was the last
    left -= count;
    plan.push_back({&sequence, sequence.computed, count});
    ++it;
  }
  return plan;
}

void BatchScheduler::Computed(const std::vector<PlanPiece>& plan) {
  for (const PlanPiece& piece : plan) {
    TANDEM_CHECK(piece.sequence->computed == piece.begin, "plan executed twice: request ", piece.sequence->request);
    piece.sequence->computed += piece.count;
  }
}

Sequence* BatchScheduler::Start(const Sequence& prompt_sequence, int sample, std::optional<BlockCopy>& copy) {
  TANDEM_CHECK(sample > 0 && sample < prompt_sequence.forks && prompt_sequence.completion_tokens() == 0, "sample ",
               sample, " of ", prompt_sequence.forks);
  auto sequence = std::make_unique<Sequence>();
  sequence->request = prompt_sequence.request;
  sequence->index = prompt_sequence.index + sample;
  sequence->prompt_tokens = prompt_sequence.prompt_tokens;
  sequence->tokens = prompt_sequence.tokens;
  Sequence* started = sequence.get();
  ++requests_.at(sequence->request).sequences;
  if (blocks_.Fork(prompt_sequence.blocks, prompt_sequence.computed, sequence->blocks, copy)) {
    sequence->computed = prompt_sequence.computed;
    running_.emplace(started->order(), std::move(sequence));
  } else {
    waiting_.emplace(started->order(), std::move(sequence));
  }
  return started;
}

void BatchScheduler::Append(Sequence& sequence, int token) {
  sequence.tokens.push_back(token);
  sequence.forks = 1;
  requests_.at(sequence.request).has_token = true;
}

std::unique_ptr<Sequence> BatchScheduler::Finish(Sequence& sequence) {
  const Order order = sequence.order();
  auto node = running_.extract(order);
  if (node.empty()) node = waiting_.extract(order);
  TANDEM_CHECK(!node.empty(), "finished twice: request ", order.first, " index ", order.second);
  std::unique_ptr<Sequence> finished = std::move(node.mapped());
  blocks_.Release(finished->blocks);
  Forget(*finished);
  return finished;
}

void BatchScheduler::Forget(const Sequence& sequence) {
  const auto request = requests_.find(sequence.request);
  if (--request->second.sequences > 0) return;
  requests_.erase(request);
  not_admitted_.erase(sequence.request);
}

void BatchScheduler::Recompute() {
  for (auto& [order, sequence] : running_) {
    blocks_.Release(sequence->blocks);
    sequence->computed = 0;
  }
  waiting_.merge(running_);
  blocks_.StartVersion();
}

}  // namespace tandem::inference
