#pragma once
// Runs rows through the model pack by pack under the turn: forward only, or forward and backward. Between two packs the
// turn may be lent; activations never live across that. One thread (the job's), which holds the turn at every call.

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "services/trainer/step/pack_pass.h"
#include "services/trainer/step/training_memory.h"
#include "services/trainer/step/turn_keeper.h"

namespace tandem::trainer {

class PackRunner {
 public:
  // `progress` hears of tokens done and tokens in all, after each pack.
  struct Options {
    int64_t pack_tokens = 0;
    float temperature = 1;
    std::function<void(int64_t done, int64_t total)> progress;
  };
  PackRunner(const Transformer& transformer, TrainingMemory& memory, TurnKeeper& turn, const Options& options)
      : transformer_(transformer), memory_(memory), turn_(turn), options_(options) {}

  // Scores of every row; between packs the segments of `keep` are kept.
  absl::StatusOr<std::vector<RowScores>> Score(absl::Span<const Sequence> rows, const Keep& keep);

  // gradients += d loss / d weights, where `token_gradient` fills d loss / d logp of a row's scored tokens from their
  // scores. Rows with has_gradient false get no backward (theirs is 0): they are packed apart, after the others.
  absl::StatusOr<std::vector<RowScores>> ScoreAndAccumulate(absl::Span<const Sequence> rows,
                                                            const std::vector<bool>& has_gradient,
                                                            const TokenGradient& token_gradient);

 private:
  struct Work {
    absl::Span<const Sequence> rows;
    const TokenGradient* token_gradient = nullptr;  // null: forward only
    const Keep* keep = nullptr;
    int64_t tokens_done = 0, tokens_total = 0;
    std::vector<RowScores> scores;
  };
  absl::Status RunPacks(Work& work, absl::Span<const size_t> members, bool backward);

  const Transformer& transformer_;
  TrainingMemory& memory_;
  TurnKeeper& turn_;
  const Options options_;
};

}  // namespace tandem::trainer
