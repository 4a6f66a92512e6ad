#include "services/inference/kv_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace tandem::inference {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(KvBlocksTest, GrowGivesTheLowestFreeIdsAllOrNothing) {
  KvBlocks blocks(4, 16);
  BlockTable a;
  BlockTable b;
  ASSERT_TRUE(blocks.Grow(a, 17));
  EXPECT_THAT(a.ids(), ElementsAre(0, 1));
  ASSERT_TRUE(blocks.Grow(a, 32));
  EXPECT_THAT(a.ids(), ElementsAre(0, 1));
  EXPECT_FALSE(blocks.Grow(b, 33));
  EXPECT_THAT(b.ids(), IsEmpty());
  EXPECT_EQ(blocks.free(), 2);
  blocks.Release(a);
  EXPECT_EQ(blocks.free(), 4);
  ASSERT_TRUE(blocks.Grow(b, 1));
  EXPECT_THAT(b.ids(), ElementsAre(0));
}

TEST(KvBlocksTest, ForkSharesFullBlocksAndCopiesThePartialOne) {
  KvBlocks blocks(8, 16);
  BlockTable prompt;
  BlockTable child;
  std::optional<BlockCopy> copy;
  ASSERT_TRUE(blocks.Grow(prompt, 37));
  ASSERT_TRUE(blocks.Fork(prompt, 37, child, copy));
  EXPECT_THAT(child.ids(), ElementsAre(0, 1, 3));
  ASSERT_TRUE(copy.has_value());
  EXPECT_EQ(copy->from, 2);
  EXPECT_EQ(copy->to, 3);
  EXPECT_EQ(blocks.references(0), 2);
  EXPECT_EQ(blocks.references(2), 1);
  blocks.Release(prompt);
  EXPECT_EQ(blocks.used(), 3);
  blocks.Release(child);
  EXPECT_EQ(blocks.used(), 0);
}

TEST(KvBlocksTest, ForkAtABlockBoundaryNeedsNoBlock) {
  KvBlocks blocks(2, 16);
  BlockTable prompt;
  BlockTable child;
  std::optional<BlockCopy> copy;
  ASSERT_TRUE(blocks.Grow(prompt, 32));
  ASSERT_TRUE(blocks.Fork(prompt, 32, child, copy));
  EXPECT_FALSE(copy.has_value());
  EXPECT_FALSE(blocks.Grow(child, 33));
  EXPECT_EQ(blocks.used(), 2);
}

TEST(KvBlocksTest, ForkWithoutAFreeBlockChangesNothing) {
  KvBlocks blocks(2, 16);
  BlockTable prompt;
  BlockTable child;
  std::optional<BlockCopy> copy;
  ASSERT_TRUE(blocks.Grow(prompt, 20));
  EXPECT_FALSE(blocks.Fork(prompt, 20, child, copy));
  EXPECT_THAT(child.ids(), IsEmpty());
  EXPECT_EQ(blocks.references(0), 1);
}

TEST(KvBlocksTest, ANewVersionEmptiesEveryTable) {
  KvBlocks blocks(4, 16);
  BlockTable old;
  ASSERT_TRUE(blocks.Grow(old, 40));
  blocks.StartVersion();
  EXPECT_FALSE(blocks.Current(old));
  EXPECT_EQ(blocks.free(), 4);
  BlockTable fresh;
  ASSERT_TRUE(blocks.Grow(fresh, 16));
  blocks.Release(old);  // gives nothing back: its blocks are someone else's by now
  EXPECT_EQ(blocks.used(), 1);
  ASSERT_TRUE(blocks.Grow(old, 16));
  EXPECT_THAT(old.ids(), ElementsAre(1));
}

// Random histories against a plain model: who holds which block, counted anew after each operation.
class KvBlocksHistory {
 public:
  explicit KvBlocksHistory(uint32_t seed) : random_(seed) {}

  void Run(int operations) {
    for (int i = 0; i < operations; ++i) {
      Operate(static_cast<int>(random_() % 10));
      CheckInvariants();
    }
  }

 private:
  struct Held {
    BlockTable table;
    int tokens = 0;
  };

  void Operate(int kind) {
    if (kind < 4) {
      Held& held = tables_[next_++];
      if (const int tokens = 1 + static_cast<int>(random_() % 60); blocks_.Grow(held.table, tokens))
        held.tokens = tokens;
    } else if (kind < 6 && !tables_.empty()) {
      Held& parent = Any();
      const int tokens = parent.tokens;
      if (tokens == 0) return;
      std::optional<BlockCopy> copy;
      Held child;
      if (!blocks_.Fork(parent.table, tokens, child.table, copy)) return;
      EXPECT_EQ(copy.has_value(), tokens % 16 != 0);
      child.tokens = tokens;
      tables_[next_++] = child;
    } else if (kind < 7 && !tables_.empty()) {
      Held& held = Any();
      if (blocks_.Grow(held.table, held.tokens + 1)) ++held.tokens;
    } else if (kind < 9 && !tables_.empty()) {
      const auto it = std::next(tables_.begin(), static_cast<int>(random_() % tables_.size()));
      blocks_.Release(it->second.table);
      tables_.erase(it);
    } else if (random_() % 20 == 0) {
      blocks_.StartVersion();
      for (auto& [id, held] : tables_) {
        blocks_.Release(held.table);
        held.tokens = 0;
      }
    }
  }

  Held& Any() { return std::next(tables_.begin(), static_cast<int>(random_() % tables_.size()))->second; }

  void CheckInvariants() {
    std::map<int, int> references;
    for (const auto& [id, held] : tables_) {
      const std::set<int> distinct(held.table.ids().begin(), held.table.ids().end());
      ASSERT_EQ(distinct.size(), held.table.ids().size());
      ASSERT_EQ(static_cast<int>(distinct.size()), blocks_.BlocksFor(held.tokens));
      for (const int block : distinct) ++references[block];
      // The block that the next token goes to, if it exists, belongs to this table alone.
      if (held.tokens % 16 != 0) {
        ASSERT_EQ(blocks_.references(held.table.ids().back()), 1);
      }
    }
    for (int block = 0; block < blocks_.total(); ++block) ASSERT_EQ(blocks_.references(block), references[block]);
    ASSERT_EQ(blocks_.used() + blocks_.free(), blocks_.total());
  }

  std::mt19937 random_;
  KvBlocks blocks_{40, 16};
  std::map<int, Held> tables_;
  int next_ = 0;
};

TEST(KvBlocksTest, RandomHistoriesKeepTheInvariants) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    KvBlocksHistory(seed).Run(600);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace tandem::inference
