#pragma once
// Which KV block belongs to whom: ids and reference counts, no memory. A block holds the keys and values of
// `positions` consecutive tokens of a sequence.
//
// The completions of one prompt share the prompt's full blocks; the block that a sequence still writes into is always
// its own. Contents belong to one version of the weights: StartVersion frees everything at once, and a table made
// before it counts as empty from then on, so nothing can be reused across versions.
// Not thread-safe: the engine's thread owns it. Ids are given lowest first, so that a history repeats exactly.

#include <cstdint>
#include <optional>
#include <vector>

namespace tandem::inference {

class KvBlocks;

// The blocks of one sequence, in order of positions. Made empty; filled and emptied by KvBlocks only. Must be released
// before it goes; ids() is stale after StartVersion until the next Grow or Release.
class BlockTable {
 public:
  const std::vector<int>& ids() const { return ids_; }

 private:
  friend class KvBlocks;
  std::vector<int> ids_;
  uint64_t epoch_ = 0;
};

// A block whose contents must be copied before the next step, because two completions go on from the middle of it.
struct BlockCopy {
  int from = 0;
  int to = 0;
};

class KvBlocks {
 public:
  // `blocks` blocks of `positions` tokens each.
  KvBlocks(int blocks, int positions);

  // Blocks that `tokens` tokens need.
  int BlocksFor(int tokens) const { return (tokens + positions_ - 1) / positions_; }

  // Gives `table` blocks for `tokens` tokens in all. All or nothing: false if too few are free.
  bool Grow(BlockTable& table, int tokens);
  // Makes `child` (empty) hold the first `tokens` tokens of `parent`: full blocks are shared, a partial last one gets a
  // block of its own and `copy` says what to copy into it. False, and nothing changed, if no block is free.
  bool Fork(const BlockTable& parent, int tokens, BlockTable& child, std::optional<BlockCopy>& copy);
  // Gives the table's blocks back; the table is empty afterwards.
  void Release(BlockTable& table);
  // The weights changed, or the cache's contents were lost: every block is free, every table is empty.
  void StartVersion();

  int total() const { return static_cast<int>(references_.size()); }
  int free() const { return static_cast<int>(free_.size()); }
  int used() const { return total() - free(); }
  // Whether the table's blocks are still its own: false after StartVersion.
  bool Current(const BlockTable& table) const { return table.epoch_ == epoch_ || table.ids_.empty(); }
  // How many tables hold the block.
  int references(int block) const { return references_[static_cast<size_t>(block)]; }

 private:
  int Take();

  int positions_;
  uint64_t epoch_ = 1;
  std::vector<int> references_;
  std::vector<int> free_;  // a heap: the lowest id first
};

}  // namespace tandem::inference
