#include "services/text/bpe.h"

namespace tandem::text {
namespace {

uint64_t Key(int left, int right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

}  // namespace

Bpe::Bpe(const ByteTokens& byte_tokens, const std::vector<Merge>& merges) : byte_tokens_(byte_tokens) {
  merges_.reserve(merges.size());
  for (size_t i = 0; i < merges.size(); ++i) {
    merges_[Key(merges[i].left, merges[i].right)] = {static_cast<uint32_t>(i), merges[i].merged};
  }
}

const Bpe::Ranked* Bpe::Find(int left, int right) const {
  const auto it = merges_.find(Key(left, right));
  return it == merges_.end() ? nullptr : &it->second;
}

void Bpe::Push(const std::vector<Symbol>& word, int at, Queue& queue) const {
  if (at < 0 || word[static_cast<size_t>(at)].next < 0) return;
  const Symbol& symbol = word[static_cast<size_t>(at)];
  const Ranked* merge = Find(symbol.token, word[static_cast<size_t>(symbol.next)].token);
  if (merge != nullptr) queue.push({merge->rank, at, merge->merged});
}

void Bpe::Encode(absl::string_view pre_token, std::vector<int>& ids) const {
  std::vector<Symbol> word;
  word.reserve(pre_token.size());
  for (const char byte : pre_token) {
    const int token = byte_tokens_[static_cast<uint8_t>(byte)];
    if (token < 0) continue;
    const int at = static_cast<int>(word.size());
    if (at > 0) word.back().next = at;
    word.push_back({token, at - 1, -1});
  }
  Queue queue;
  for (size_t i = 0; i < word.size(); ++i) Push(word, static_cast<int>(i), queue);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = word[static_cast<size_t>(best.at)];
    if (left.token < 0 || left.next < 0) continue;
    Symbol& right = word[static_cast<size_t>(left.next)];
    const Ranked* now = Find(left.token, right.token);
    if (now == nullptr || now->merged != best.merged) continue;  // a neighbour was merged since
    left.token = best.merged;
    right.token = -1;
    left.next = right.next;
    if (left.next >= 0) word[static_cast<size_t>(left.next)].previous = best.at;
    Push(word, left.previous, queue);
    Push(word, best.at, queue);
  }
  for (const Symbol& symbol : word) {
    if (symbol.token >= 0) ids.push_back(symbol.token);
  }
}

}  // namespace tandem::text
