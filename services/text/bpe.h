#pragma once
// Byte-pair encoding of one pre-token (Sennrich et al. 2016): starting from its bytes, the adjacent pair with the
// lowest rank is merged, the leftmost first, until no pair has a rank. Immutable; thread-safe. O(n log n) in the
// pre-token's length.

#include <array>
#include <cstdint>
#include <queue>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace tandem::text {

class Bpe {
 public:
  // Token of a byte, or -1: such bytes vanish without a trace, as in tokenizers without an unknown token.
  using ByteTokens = std::array<int, 256>;
  struct Merge {
    int left, right, merged;  // ids
  };

  // `merges` in the order of their ranks; a pair that stands twice has its last rank.
  Bpe(const ByteTokens& byte_tokens, const std::vector<Merge>& merges);

  // Appends the ids of `pre_token`.
  void Encode(absl::string_view pre_token, std::vector<int>& ids) const;

 private:
  struct Ranked {
    uint32_t rank;
    int merged;
  };
  // A symbol of the word: a list over a vector, in which merged ones get token -1.
  struct Symbol {
    int token, previous, next;
  };
  // A possible merge of the symbol at `at` with the next one.
  struct Candidate {
    uint32_t rank;
    int at, merged;
    bool operator>(const Candidate& other) const { return rank != other.rank ? rank > other.rank : at > other.at; }
  };
  using Queue = std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>>;

  const Ranked* Find(int left, int right) const;
  void Push(const std::vector<Symbol>& word, int at, Queue& queue) const;

  ByteTokens byte_tokens_;
  absl::flat_hash_map<uint64_t, Ranked> merges_;
};

}  // namespace tandem::text
