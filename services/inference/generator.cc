#include "services/inference/generator.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace tandem::inference {
namespace {

constexpr uint64_t kLogitBytes = uint64_t{16} << 20;
constexpr uint64_t kAlignment = 64;

uint64_t Aligned(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

int MaxRows(const GeneratorLimits& limits) {
  return limits.max_batch + limits.prefill_tokens;
}

int LogitRows(const ModelConfig& config, const GeneratorLimits& limits) {
  const uint64_t fitting = kLogitBytes / (static_cast<uint64_t>(config.vocab_size) * sizeof(float));
  return static_cast<int>(std::clamp<uint64_t>(fitting, 1, static_cast<uint64_t>(MaxRows(limits))));
}

uint64_t HiddenBytes(const ModelConfig& config, const GeneratorLimits& limits) {
  return Aligned(static_cast<uint64_t>(MaxRows(limits)) * static_cast<uint64_t>(config.hidden_size) * sizeof(float));
}

}  // namespace

// The arrays of one forward call.
struct Generator::Rows {
  std::vector<int> tokens, positions, sequence;
  std::vector<absl::Span<const int>> block_tables;
  std::vector<int> output_rows;
  std::vector<OutputRow> outputs;  // one for each of output_rows
  int prompt_rows = 0;
};

uint64_t Generator::WorkspaceBytes(const Transformer& transformer, const GeneratorLimits& limits) {
  const ModelConfig& config = transformer.config();
  const uint64_t logits = static_cast<uint64_t>(LogitRows(config, limits)) * static_cast<uint64_t>(config.vocab_size);
  return Aligned(transformer.PagedWorkspaceBytes(MaxRows(limits))) + HiddenBytes(config, limits) +
         Aligned(logits * sizeof(float));
}

Generator::Generator(const Transformer& transformer, Kernels& kernels, const Clock& clock,
                     const GeneratorLimits& limits, const GeneratorMemory& memory)
    : transformer_(transformer),
      kernels_(kernels),
      clock_(clock),
      limits_(limits),
      kv_(memory.kv),
      forward_workspace_(memory.workspace),
      logit_rows_(LogitRows(transformer.config(), limits)),
      scheduler_({.kv_blocks = limits.kv_blocks,
                  .block_positions = kKvBlock,
                  .max_batch = limits.max_batch,
                  .prefill_tokens = limits.prefill_tokens,
                  .max_waiting = limits.max_waiting}) {
  std::byte* next = memory.workspace + Aligned(transformer.PagedWorkspaceBytes(MaxRows(limits)));
  hidden_ = reinterpret_cast<float*>(next);
  logits_ = reinterpret_cast<float*>(next + HiddenBytes(transformer.config(), limits));
}

Generator::~Generator() {
  EndAll(absl::UnavailableError("the model is no longer served; try again"));
}

absl::Status Generator::Add(Request request) {
  TANDEM_CHECK(!request.prompt_logprobs || request.prompts.size() == 1, "prompt_logprobs of ", request.prompts.size());
  const uint64_t id = request.id;
  Live live;
  live.submitted = clock_.Now();
  live.unfinished = static_cast<int>(request.prompts.size()) * request.sampling.n;
  if (request.prompt_logprobs) live.prompt_logprobs.resize(request.prompts.front().size(), 0.0F);
  TANDEM_RETURN_IF_ERROR(scheduler_.Add({.id = id,
                                         .prompts = std::move(request.prompts),
                                         .n = request.sampling.n,
                                         .max_tokens = request.sampling.max_tokens,
                                         .deadline = live.submitted + request.timeout}));
  live.request = std::move(request);
  live_.emplace(id, std::move(live));
  return absl::OkStatus();
}

void Generator::End(uint64_t id, const absl::Status& status) {
  scheduler_.Abort(id);
  const auto node = live_.extract(id);
  if (!node.empty()) node.mapped().request.sink->OnDone(status, node.mapped().busy);
}

void Generator::EndAll(const absl::Status& status) {
  while (!live_.empty()) End(live_.begin()->first, status);
}

void Generator::Sweep() {
  for (const uint64_t id : scheduler_.Expire(clock_.Now())) {
    const Request& request = live_.at(id).request;
    End(id, absl::DeadlineExceededError(
                absl::StrCat("no token within ", absl::FormatDuration(request.timeout),
                             ": the turn was elsewhere or the queue too long; raise timeout_ms or try again later")));
  }
  std::vector<std::pair<uint64_t, absl::Status>> abandoned;
  for (const auto& [id, live] : live_) {
    if (absl::Status status = live.request.sink->Abandoned(); !status.ok()) abandoned.emplace_back(id, status);
  }
  for (const auto& [id, status] : abandoned) End(id, status);
}

void Generator::SetVersion(WeightsVersion version) {
  if (version != version_) {
    version_ = version;
    scheduler_.Recompute();
  }
  std::vector<std::pair<uint64_t, uint64_t>> outdated;
  for (const auto& [id, live] : live_) {
    const std::optional<uint64_t>& pinned = live.request.pinned_version;
    if (pinned && *pinned != version.version) outdated.emplace_back(id, *pinned);
  }
  for (const auto& [id, pinned] : outdated) {
    End(id, absl::FailedPreconditionError(
                absl::StrCat("rollout of version ", pinned, ", but the weights are at version ", version.version)));
  }
}

Generator::Rows Generator::Collect(const std::vector<PlanPiece>& plan) {
  Rows rows;
  for (const PlanPiece& piece : plan) {
    Sequence& sequence = *piece.sequence;
    Live& live = live_.at(sequence.request);
    const int table = static_cast<int>(rows.block_tables.size());
    rows.block_tables.emplace_back(sequence.blocks.ids());
    // The prompt's own log-probabilities are asked of its first pass only.
    const bool scores_prompt = live.request.prompt_logprobs && !live.prompt_sent && sequence.completion_tokens() == 0;
    for (int position = piece.begin; position < piece.begin + piece.count; ++position) {
      const bool last = position + 1 == static_cast<int>(sequence.tokens.size());
      if (last || scores_prompt) {
        rows.output_rows.push_back(static_cast<int>(rows.tokens.size()));
        const int target = last ? -1 : sequence.tokens[static_cast<size_t>(position) + 1];
        rows.outputs.push_back({.request = sequence.request,
                                .sequence = &sequence,
                                .live = &live,
                                .position = position,
                                .target = target});
      }
      rows.tokens.push_back(sequence.tokens[static_cast<size_t>(position)]);
      rows.positions.push_back(position);
      rows.sequence.push_back(table);
    }
    if (piece.count > 1 || piece.begin == 0) rows.prompt_rows += piece.count;
  }
  return rows;
}

StepReport Generator::Step(const float* weights) {
  StepReport report;
  const absl::Duration start = clock_.Now();
  const std::vector<PlanPiece> plan = scheduler_.Next();
  if (plan.empty()) return report;
  const Rows rows = Collect(plan);
  report.prompt_rows = rows.prompt_rows;
  const PagedBatch batch{.tokens = rows.tokens,
                         .positions = rows.positions,
                         .sequence = rows.sequence,
                         .block_tables = rows.block_tables,
                         .output_rows = rows.output_rows};
  transformer_.ForwardPaged(weights, batch, reinterpret_cast<float*>(kv_), forward_workspace_, hidden_);
  const std::vector<Choice> choices = Score(weights, rows.outputs, hidden_);
  scheduler_.Computed(plan);
  const absl::Duration spent = clock_.Now() - start;
  uint64_t last = 0;
  for (const PlanPiece& piece : plan) {  // in order of requests
    if (piece.sequence->request == last) continue;
    last = piece.sequence->request;
    live_.at(last).busy += spent;
  }
  DeliverPrompts(choices);
  for (const Choice& choice : choices) {
    if (choice.row.target < 0) Deliver(choice, report);
  }
  return report;
}

void Generator::DeliverPrompts(const std::vector<Choice>& choices) {
  for (const Choice& choice : choices) {
    Live& live = *choice.row.live;
    if (!live.request.prompt_logprobs || live.prompt_sent) continue;
    if (choice.row.target >= 0) {
      live.prompt_logprobs[static_cast<size_t>(choice.row.position) + 1] = choice.logprob;
    } else if (choice.sample == 0) {
      live.prompt_sent = true;
      live.request.sink->OnPromptLogprobs(std::move(live.prompt_logprobs), version_.version);
    }
  }
}

FinishReason Generator::FinishOf(const Live& live, int token, int completion_tokens) const {
  const std::vector<int>& ends = live.request.end_tokens;
  if (std::binary_search(ends.begin(), ends.end(), token)) return FinishReason::kStop;
  return completion_tokens >= live.request.sampling.max_tokens ? FinishReason::kLength : FinishReason::kNone;
}

void Generator::Deliver(const Choice& choice, StepReport& report) {
  const uint64_t id = choice.row.request;
  const auto found = live_.find(id);
  if (found == live_.end()) return;  // ended while this step's tokens were handed out
  Live& live = found->second;
  Sequence* sequence = choice.row.sequence;
  if (!std::isfinite(choice.logprob)) {
    End(id, absl::InternalError(absl::StrCat("the model's logits are not finite at version ", version_.version,
                                             ": its weights are damaged or training diverged")));
    return;
  }
  const int index = sequence->index + choice.sample;
  const FinishReason finish = FinishOf(live, choice.token, sequence->completion_tokens() + 1);
  if (choice.sample > 0) {
    if (finish == FinishReason::kNone) {
      std::optional<BlockCopy> copy;
      Sequence* started = scheduler_.Start(*sequence, choice.sample, copy);
      if (copy) Copy(*copy);
      scheduler_.Append(*started, choice.token);
      started->last_token = clock_.Now();
    }
  } else {
    scheduler_.Append(*sequence, choice.token);
    const absl::Duration now = clock_.Now();
    if (sequence->completion_tokens() > 1) report.token_gaps.push_back(now - sequence->last_token);
    sequence->last_token = now;
    if (finish != FinishReason::kNone) scheduler_.Finish(*sequence);
  }
  EmitToken(live, index, choice, finish, report);
}

void Generator::EmitToken(Live& live, int index, const Choice& choice, FinishReason finish, StepReport& report) {
  ++report.tokens;
  if (!live.first_token) {
    live.first_token = true;
    report.first_token_waits.push_back(clock_.Now() - live.submitted);
  }
  live.request.sink->OnToken({.index = index,
                              .token = choice.token,
                              .logprob = choice.logprob,
                              .version = version_.version,
                              .finish = finish});
  if (finish == FinishReason::kNone || --live.unfinished > 0) return;
  const auto node = live_.extract(live.request.id);
  node.mapped().request.sink->OnDone(absl::OkStatus(), node.mapped().busy);
}

void Generator::Copy(const BlockCopy& copy) {
  const uint64_t bytes = transformer_.KvBytes(1);
  std::memcpy(kv_ + static_cast<uint64_t>(copy.to) * bytes, kv_ + static_cast<uint64_t>(copy.from) * bytes, bytes);
}

}  // namespace tandem::inference
