#pragma once
// Sums of two two-digit numbers as training data: the quickstart's task. Pure but for WriteAdditionProblems.
//
// Held-out problems share no unordered pair of summands with the training problems: if 12+34 is held out, neither 12+34
// nor 34+12 is trained on. The same seed gives the same files.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tandem::client {

struct Addition {
  int a = 0;  // 10 .. 99
  int b = 0;
};

struct AdditionProblems {
  std::vector<Addition> train;     // both orders of each pair, shuffled
  std::vector<Addition> held_out;  // one order of each pair
};

inline constexpr int kAdditionPairs = 90 * 91 / 2;  // unordered

// `held_out` pairs of all; 1 <= held_out < kAdditionPairs.
AdditionProblems MakeAdditionProblems(int held_out, uint64_t seed);

// Held-out problems whose unordered pair is also trained on; 0 by construction, counted from the lists themselves.
int CountOverlap(const AdditionProblems& problems);

// Writes DIR/train.jsonl and DIR/held_out.jsonl: one {"prompt": "12+34=", "completion": "46", "answer": "46"} a line.
absl::Status WriteAdditionProblems(const std::string& dir, const AdditionProblems& problems);

}  // namespace tandem::client
