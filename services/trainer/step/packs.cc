#include "services/trainer/step/packs.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"

namespace tandem::trainer {

std::vector<std::vector<size_t>> PlanPacks(absl::Span<const Sequence> rows, absl::Span<const size_t> members,
                                           int64_t pack_tokens) {
  std::vector<std::vector<size_t>> packs;
  int64_t room = 0;
  for (const size_t row : members) {
    const int64_t tokens = rows[row].input_tokens();
    if (packs.empty() || tokens > room) {
      packs.emplace_back();
      room = pack_tokens;
    }
    packs.back().push_back(row);
    room -= tokens;
  }
  return packs;
}

int64_t LargestPack(int64_t pack_tokens, int64_t longest_row, int64_t rows) {
  return std::max(longest_row, std::min(pack_tokens, longest_row * rows));
}

Pack MakePack(absl::Span<const Sequence> rows, std::vector<size_t> members) {
  Pack pack;
  pack.cu_seqlens.push_back(0);
  for (const size_t index : members) {
    const Sequence& row = rows[index];
    TANDEM_CHECK(!row.context.empty() && !row.scored.empty(), "row ", index, " of ", row.context.size(), " + ",
                 row.scored.size(), " tokens");
    const int first = static_cast<int>(pack.tokens.size() + row.context.size()) - 1;
    pack.tokens.insert(pack.tokens.end(), row.context.begin(), row.context.end());
    pack.tokens.insert(pack.tokens.end(), row.scored.begin(), row.scored.end() - 1);
    for (size_t t = 0; t < row.scored.size(); ++t) {
      pack.scored_rows.push_back(first + static_cast<int>(t));
      pack.targets.push_back(row.scored[t]);
    }
    pack.cu_seqlens.push_back(static_cast<int>(pack.tokens.size()));
  }
  pack.members = std::move(members);
  return pack;
}

}  // namespace tandem::trainer
