#pragma once
// Which rows the next step computes: continuous batching over requests of one or more prompts with n completions each.
// Pure: no memory, no clock, no threads; the engine's thread calls it. A history of calls repeats exactly.
//
//   Add* -> { Next -> execute the plan -> Computed -> for each piece with output: Start (the prompt's further
//   completions), then Append or Finish }*
//
// A sequence's rows are its tokens that are not computed yet: one when it decodes, more when its prompt (or everything,
// after it lost its blocks) is computed. A step holds one row for each sequence that decodes, at most `max_batch`, and
// at most `prefill_tokens` other rows, cut anywhere. Sequences run in order of arrival and are admitted when blocks
// suffice for their tokens. When blocks run out, the youngest sequence gives up its blocks and is computed again later
// ("preempted"). By row invariance none of this changes a result.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "services/inference/kv_blocks.h"
#include "services/inference/sequence.h"

namespace tandem::inference {

struct SchedulerLimits {
  int kv_blocks = 0;         // blocks of the KV cache
  int block_positions = 16;  // tokens in a block
  int max_batch = 256;       // sequences that decode in one step
  int prefill_tokens = 512;  // other rows in one step
  int max_waiting = 64;      // requests that wait for their first blocks
};

// What the scheduler needs to know of a request.
struct ScheduledRequest {
  uint64_t id = 0;  // above all earlier ones
  std::vector<std::vector<int>> prompts;
  int n = 1;
  int max_tokens = 1;
  absl::Duration deadline = absl::InfiniteDuration();  // on the caller's clock: first token by then, or expired
};

// Rows of one sequence in a step: its tokens begin .. begin + count.
struct PlanPiece {
  Sequence* sequence = nullptr;
  int begin = 0;
  int count = 0;
  // The last row is the sequence's last token: its logits give the next one.
  bool output() const { return begin + count == static_cast<int>(sequence->tokens.size()); }
};

class BatchScheduler {
 public:
  explicit BatchScheduler(const SchedulerLimits& limits);

  // RESOURCE_EXHAUSTED if max_waiting requests wait already; INVALID_ARGUMENT if a completion could never fit the
  // cache.
  absl::Status Add(ScheduledRequest request);
  // Forgets a request and frees its blocks; unknown ids are fine (it may just have ended).
  void Abort(uint64_t request);
  // Requests without a token whose deadline is not after `now`: forgotten, and returned.
  std::vector<uint64_t> Expire(absl::Duration now);
  // The earliest deadline of a request without a token.
  absl::Duration next_deadline() const;

  // The next step's rows; empty when nothing is left to do. Pieces are in order of arrival.
  std::vector<PlanPiece> Next();
  // The plan's rows were executed: their keys and values are in the blocks.
  void Computed(const std::vector<PlanPiece>& plan);
  // Makes completion `prompt_sequence.index + sample` (sample 1 .. forks - 1) from a prompt that was just computed. A
  // copy must be made before the next step. The returned sequence has no token yet: Append to it.
  Sequence* Start(const Sequence& prompt_sequence, int sample, std::optional<BlockCopy>& copy);
  // The sequence's next token, sampled in the step just executed.
  void Append(Sequence& sequence, int token);
  // Takes a sequence out, with its tokens; frees its blocks. The pointer is dead afterwards.
  std::unique_ptr<Sequence> Finish(Sequence& sequence);

  // The weights changed or the cache is lost: every sequence is computed again from its first token.
  void Recompute();

  bool idle() const { return running_.empty() && waiting_.empty(); }
  int running() const { return static_cast<int>(running_.size()); }
  // Requests that wait for their first blocks.
  int waiting_requests() const { return static_cast<int>(not_admitted_.size()); }
  const KvBlocks& blocks() const { return blocks_; }
  uint64_t preemptions() const { return preemptions_; }

 private:
  using Order = std::pair<uint64_t, int>;
  struct RequestState {
    int sequences = 0;  // alive
    bool has_token = false;
    absl::Duration deadline;
  };

  void AdmitWaiting();
  // A block for the sequence's next row, at the cost of younger ones; false if it was preempted itself.
  bool MakeRoom(Sequence& sequence);
  void Preempt(Order order);
  void Forget(const Sequence& sequence);

  SchedulerLimits limits_;
  KvBlocks blocks_;
  std::map<Order, std::unique_ptr<Sequence>> running_;  // hold blocks
  std::map<Order, std::unique_ptr<Sequence>> waiting_;  // hold none
  std::map<uint64_t, RequestState> requests_;
  std::set<uint64_t> not_admitted_;
  uint64_t preemptions_ = 0;
};

}  // namespace tandem::inference
