#include "services/client/addition_problems.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/philox.h"
#include "common/base/status.h"

namespace tandem::client {
namespace {

enum Stream : uint64_t { kPairs = 0, kOrders = 1, kTrain = 2 };

std::pair<int, int> Unordered(const Addition& sum) {
  return std::minmax(sum.a, sum.b);
}

std::string Lines(const std::vector<Addition>& sums) {
  std::string lines;
  for (const Addition& sum : sums) {
    const int answer = sum.a + sum.b;
    absl::StrAppend(&lines, R"({"prompt": ")", sum.a, "+", sum.b, R"(=", "completion": ")", answer, R"(", "answer": ")",
                    answer, "\"}\n");
  }
  return lines;
}

}  // namespace

AdditionProblems MakeAdditionProblems(int held_out, uint64_t seed) {
  TANDEM_CHECK(held_out >= 1 && held_out < kAdditionPairs, held_out);
  std::vector<Addition> pairs;
  for (int a = 10; a <= 99; ++a) {
    for (int b = a; b <= 99; ++b) pairs.push_back({a, b});
  }
  AdditionProblems problems;
  std::vector<Addition> train;
  const std::vector<int64_t> order = PhiloxPermutation(static_cast<int64_t>(pairs.size()), seed, kPairs);
  for (size_t i = 0; i < pairs.size(); ++i) {
    const Addition pair = pairs[static_cast<size_t>(order[i])];
    const Addition swapped = {pair.b, pair.a};
    if (problems.held_out.size() < static_cast<size_t>(held_out)) {
      problems.held_out.push_back(Philox(seed, i, kOrders)[0] % 2 == 0 ? pair : swapped);
      continue;
    }
    train.push_back(pair);
    if (pair.a != pair.b) train.push_back(swapped);
  }
  for (const int64_t i : PhiloxPermutation(static_cast<int64_t>(train.size()), seed, kTrain)) {
    problems.train.push_back(train[static_cast<size_t>(i)]);
  }
  return problems;
}

int CountOverlap(const AdditionProblems& problems) {
  std::set<std::pair<int, int>> trained;
  for (const Addition& sum : problems.train) trained.insert(Unordered(sum));
  return static_cast<int>(std::count_if(problems.held_out.begin(), problems.held_out.end(),
                                        [&](const Addition& sum) { return trained.contains(Unordered(sum)); }));
}

absl::Status WriteAdditionProblems(const std::string& dir, const AdditionProblems& problems) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) return ErrnoStatus(error.value(), "make", dir);
  TANDEM_RETURN_IF_ERROR(WriteFileAtomically(dir + "/train.jsonl", Lines(problems.train)));
  return WriteFileAtomically(dir + "/held_out.jsonl", Lines(problems.held_out));
}

}  // namespace tandem::client
