#include "services/inference/kv_blocks.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "common/base/status.h"

namespace tandem::inference {

KvBlocks::KvBlocks(int blocks, int positions) : positions_(positions), references_(static_cast<size_t>(blocks)) {
  TANDEM_CHECK(blocks > 0 && positions > 0, "blocks=", blocks, " positions=", positions);
  free_.resize(references_.size());
  std::iota(free_.begin(), free_.end(), 0);  // ascending is a heap with the lowest id first
}

int KvBlocks::Take() {
  std::pop_heap(free_.begin(), free_.end(), std::greater<>());
  const int block = free_.back();
  free_.pop_back();
  TANDEM_CHECK(references_[static_cast<size_t>(block)] == 0, "free block is held: ", block);
  references_[static_cast<size_t>(block)] = 1;
  return block;
}

bool KvBlocks::Grow(BlockTable& table, int tokens) {
  if (!Current(table)) table.ids_.clear();
  const int missing = BlocksFor(tokens) - static_cast<int>(table.ids_.size());
  if (missing > free()) return false;
  table.epoch_ = epoch_;
  for (int i = 0; i < missing; ++i) table.ids_.push_back(Take());
  return true;
}

bool KvBlocks::Fork(const BlockTable& parent, int tokens, BlockTable& child, std::optional<BlockCopy>& copy) {
  TANDEM_CHECK(child.ids_.empty() || !Current(child), "fork into a table that holds blocks");
  TANDEM_CHECK(Current(parent) && BlocksFor(tokens) <= static_cast<int>(parent.ids_.size()),
               "fork beyond the parent: ", tokens, " tokens of ", parent.ids_.size(), " blocks");
  copy.reset();
  const auto full = static_cast<size_t>(tokens / positions_);
  const bool partial = tokens % positions_ != 0;
  if (partial && free_.empty()) return false;
  child.epoch_ = epoch_;
  child.ids_.assign(parent.ids_.begin(), parent.ids_.begin() + static_cast<std::ptrdiff_t>(full));
  for (const int block : child.ids_) ++references_[static_cast<size_t>(block)];
  if (partial) {
    child.ids_.push_back(Take());
    copy = BlockCopy{parent.ids_[full], child.ids_.back()};
  }
  return true;
}

void KvBlocks::Release(BlockTable& table) {
  if (Current(table)) {
    for (const int block : table.ids_) {
      int& references = references_[static_cast<size_t>(block)];
      TANDEM_CHECK(references > 0, "released twice: block ", block);
      if (--references > 0) continue;
      free_.push_back(block);
      std::push_heap(free_.begin(), free_.end(), std::greater<>());
    }
  }
  table.ids_.clear();
}

void KvBlocks::StartVersion() {
  ++epoch_;
  std::fill(references_.begin(), references_.end(), 0);
  free_.resize(references_.size());
  std::iota(free_.begin(), free_.end(), 0);
}

}  // namespace tandem::inference
