#include "services/trainer/step/pack_runner.h"

#include <numeric>
#include <utility>

#include "common/base/status.h"

namespace tandem::trainer {
namespace {

int64_t InputTokens(absl::Span<const Sequence> rows) {
  return std::accumulate(rows.begin(), rows.end(), int64_t{0},
                         [](int64_t sum, const Sequence& row) { return sum + row.input_tokens(); });
}

}  // namespace

absl::StatusOr<std::vector<RowScores>> PackRunner::Score(absl::Span<const Sequence> rows, const Keep& keep) {
  Work work{.rows = rows, .keep = &keep, .tokens_total = InputTokens(rows), .scores = {}};
  work.scores.resize(rows.size());
  std::vector<size_t> all(rows.size());
  std::iota(all.begin(), all.end(), size_t{0});
  TANDEM_RETURN_IF_ERROR(RunPacks(work, all, /*backward=*/false));
  return std::move(work.scores);
}

absl::StatusOr<std::vector<RowScores>> PackRunner::ScoreAndAccumulate(absl::Span<const Sequence> rows,
                                                                      const std::vector<bool>& has_gradient,
                                                                      const TokenGradient& token_gradient) {
  const Keep keep = memory_.KeepWithinStep();
  Work work{
      .rows = rows, .token_gradient = &token_gradient, .keep = &keep, .tokens_total = InputTokens(rows), .scores = {}};
  work.scores.resize(rows.size());
  std::vector<size_t> with, without;
  for (size_t i = 0; i < rows.size(); ++i) (has_gradient[i] ? with : without).push_back(i);
  TANDEM_RETURN_IF_ERROR(RunPacks(work, with, /*backward=*/true));
  TANDEM_RETURN_IF_ERROR(RunPacks(work, without, /*backward=*/false));
  return std::move(work.scores);
}

absl::Status PackRunner::RunPacks(Work& work, absl::Span<const size_t> members, bool backward) {
  for (std::vector<size_t>& plan : PlanPacks(work.rows, members, options_.pack_tokens)) {
    TANDEM_RETURN_IF_ERROR(turn_.BetweenUnits(*work.keep));
    const Pack pack = MakePack(work.rows, std::move(plan));
    const PackBuffers buffers{memory_.weights().data(), memory_.activations(), memory_.gradients().data()};
    RunPack(transformer_, buffers, work.rows, pack, options_.temperature, backward ? work.token_gradient : nullptr,
            work.scores);
    work.tokens_done += static_cast<int64_t>(pack.tokens.size());
    if (options_.progress) options_.progress(work.tokens_done, work.tokens_total);
  }
  return absl::OkStatus();
}

}  // namespace tandem::trainer
