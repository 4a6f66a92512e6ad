#pragma once
// Executes steps: takes the scheduler's rows through the transformer, samples, and hands tokens to the requests' sinks.
// It knows no arbiter: the engine brings the weights and the memory, and says when versions change or the cache is
// lost.
//
// Every token's log-probability comes from Kernels::LogProb on the row it was sampled from, so its bits are those of
// the trainer's forward. Results depend on the request alone (DESIGN: row invariance), not on what shares its steps.
// Allocates nothing that grows with weights or cache; logits are computed in parts of at most kLogitBytes.
// One thread: the engine's.

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "kernels/kernels.h"
#include "services/inference/batch_scheduler.h"
#include "services/inference/request.h"
#include "services/inference/sampler.h"
#include "services/transformer/transformer.h"

namespace tandem::inference {

struct GeneratorLimits {
  int kv_blocks = 0;
  int max_batch = 256;
  int prefill_tokens = 512;
  int max_waiting = 64;
};

// Memory that the engine lends: both parts of its private segments, valid during a turn only.
struct GeneratorMemory {
  std::byte* kv = nullptr;         // transformer.KvBytes(kv_blocks)
  std::byte* workspace = nullptr;  // Generator::WorkspaceBytes
};

// What one step did, for metrics.
struct StepReport {
  int prompt_rows = 0;
  int tokens = 0;
  std::vector<absl::Duration> first_token_waits;  // of requests whose first token came
  std::vector<absl::Duration> token_gaps;         // between tokens of one completion
};

class Generator {
 public:
  // All references must outlive the generator. `memory` must stay at its place.
  Generator(const Transformer& transformer, Kernels& kernels, const Clock& clock, const GeneratorLimits& limits,
            const GeneratorMemory& memory);
  ~Generator();

  static uint64_t WorkspaceBytes(const Transformer& transformer, const GeneratorLimits& limits);

  // Queues a request; its ids are within the vocabulary. Errors as of BatchScheduler::Add.
  absl::Status Add(Request request);
  // Ends a request: its sink gets `status`. Unknown ids are fine.
  void End(uint64_t id, const absl::Status& status);
  void EndAll(const absl::Status& status);
  // Ends requests whose deadline passed or whose reader is gone.
  void Sweep();
  // When Sweep has something to do next.
  absl::Duration next_deadline() const { return scheduler_.next_deadline(); }

  // Says which version the weights have from here on. If it is another one, cached keys and values are dropped, live
  // sequences are computed again, and requests pinned to another version end with FAILED_PRECONDITION.
  void SetVersion(WeightsVersion version);
  // The contents of the KV memory are gone: everything live is computed again.
  void DropCache() { scheduler_.Recompute(); }

  // One step with the weights of the version set. Needs the turn. Does nothing if idle.
  StepReport Step(const float* weights);

  bool idle() const { return scheduler_.idle(); }
  const BatchScheduler& scheduler() const { return scheduler_; }

 private:
  struct Live {
    Request request;
    std::vector<float> prompt_logprobs;
    bool prompt_sent = false;
    int unfinished = 0;  // completions
    absl::Duration submitted, busy;
    bool first_token = false;
  };
  // A row whose logits are wanted: the token after `position` is sampled, or (target >= 0) known.
  struct OutputRow {
    uint64_t request = 0;
    Sequence* sequence = nullptr;  // dead once the request ended
    Live* live = nullptr;          // likewise
    int position = 0;
    int target = -1;
  };
  // A token chosen for a completion of the row's prompt or sequence.
  struct Choice {
    OutputRow row;
    int sample = 0;
    int token = 0;
    float logprob = 0;
  };
  struct Rows;

  Rows Collect(const std::vector<PlanPiece>& plan);
  std::vector<Choice> Score(const float* weights, const std::vector<OutputRow>& rows, const float* hidden);
  void ScorePart(absl::Span<const OutputRow> rows, std::vector<Choice>& choices);
  int SampleRow(const OutputRow& row, int sample, absl::Span<const float> logits);
  void Deliver(const Choice& choice, StepReport& report);
  void DeliverPrompts(const std::vector<Choice>& choices);
  void EmitToken(Live& live, int index, const Choice& choice, FinishReason finish, StepReport& report);
  void Copy(const BlockCopy& copy);
  FinishReason FinishOf(const Live& live, int token, int completion_tokens) const;

  const Transformer& transformer_;
  Kernels& kernels_;
  const Clock& clock_;
  GeneratorLimits limits_;
  std::byte* kv_;
  std::byte* forward_workspace_;
  float* hidden_;  // [max rows, hidden]
  float* logits_;  // [logit_rows_, vocab]
  int logit_rows_;
  BatchScheduler scheduler_;
  Sampler sampler_;
  WeightsVersion version_;
  std::map<uint64_t, Live> live_;
};

}  // namespace tandem::inference
