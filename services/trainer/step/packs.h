#pragma once
// How rows are executed together: packs of whole rows, in order. A function of the batch alone, never of time or turns,
// so an interruption changes no bit. Pure; any thread.

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace tandem::trainer {

// A row to train or score: the log-probabilities of `scored` given `context` (at least one token) and what stands
// before.
struct Sequence {
  absl::Span<const int> context;
  absl::Span<const int> scored;

  // Tokens that the model reads: the last scored one predicts nothing.
  int64_t input_tokens() const {
    return static_cast<int64_t>(context.size() + scored.size()) - (scored.empty() ? 0 : 1);
  }
};

// Rows `members` (indices into the batch), one after another.
struct Pack {
  std::vector<size_t> members;
  std::vector<int> tokens;
  std::vector<int> cu_seqlens;   // [members + 1]
  std::vector<int> scored_rows;  // rows of the pack whose hidden state predicts ...
  std::vector<int> targets;      // ... this token
};

// Takes `members` in order; a pack holds as many whole rows as fit into `pack_tokens` input tokens, and at least one.
std::vector<std::vector<size_t>> PlanPacks(absl::Span<const Sequence> rows, absl::Span<const size_t> members,
                                           int64_t pack_tokens);

// Largest pack that rows of at most `longest_row` input tokens, `rows` of them, can make.
int64_t LargestPack(int64_t pack_tokens, int64_t longest_row, int64_t rows);

Pack MakePack(absl::Span<const Sequence> rows, std::vector<size_t> members);

}  // namespace tandem::trainer
