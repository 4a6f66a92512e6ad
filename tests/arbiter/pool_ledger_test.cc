#include "arbiter/state/pool_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "tests/testing/status_matchers.h"

namespace tandem::arbiter {
namespace {

using ::tandem::testing::IsOk;
using ::tandem::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kGranule = PoolLedger::kPrivateGranuleBytes;
constexpr uint64_t kBlock = 8 * kGranule;
constexpr uint64_t kArena = 8 * kBlock;
constexpr uint64_t kHost = 2 * kArena;

SegmentSpec Shared(const std::string& name, uint64_t bytes) {
  return {.name = name, .kind = SegmentKind::kShared, .bytes = bytes};
}
SegmentSpec Private(const std::string& name, uint64_t bytes, bool usually_kept = false, bool may_evict = false) {
  return {.name = name, .bytes = bytes, .usually_kept = usually_kept, .may_evict = may_evict};
}

class PoolLedgerTest : public ::testing::Test {
 protected:
  ByteRange RangeOf(SegmentId id) { return ledger_.Find(id)->range; }
  SegmentId Make(SessionId owner, const SegmentSpec& spec) {
    const absl::StatusOr<SegmentId> id = ledger_.Create(owner, absl::StrCat("t", owner), spec);
    EXPECT_THAT(id, IsOk());
    return id.value_or(0);
  }
  PoolLedger ledger_{kArena, kBlock, kHost};
};

TEST_F(PoolLedgerTest, SharedSegmentsTakeWholeBlocksFromTheLowEndAndPrivateOnesTheHighEnd) {
  const SegmentId weights = Make(1, Shared("weights", kBlock + 1));
  const SegmentId moments = Make(1, Private("moments", 5 * kGranule - 7, true));
  EXPECT_EQ(RangeOf(weights), (ByteRange{0, 2 * kBlock}));
  EXPECT_EQ(RangeOf(moments), (ByteRange{kArena - 5 * kGranule, kArena}));
  ledger_.CheckInvariants();
}

TEST_F(PoolLedgerTest, APrivateSegmentPrefersBytesThatNobodyElseKeeps) {
  const SegmentId moments = Make(1, Private("moments", 2 * kBlock, true));
  const SegmentId gradients = Make(1, Private("gradients", 2 * kBlock));
  const SegmentId kv = Make(2, Private("kv", 4 * kBlock, false, true));
  EXPECT_FALSE(RangeOf(kv).Overlaps(RangeOf(moments)));
  EXPECT_TRUE(RangeOf(kv).Overlaps(RangeOf(gradients)));
  EXPECT_EQ(ledger_.Accounting().overlaid_bytes, 2 * kBlock);
  ledger_.CheckInvariants();
}

TEST_F(PoolLedgerTest, OnlyOverlappedKeptBytesMove) {
  const SegmentId moments = Make(1, Private("moments", 6 * kBlock, true));
  const SegmentId kv = Make(2, Private("kv", 4 * kBlock, false, true));
  ledger_.Keep(1, {moments});
  const std::vector<Move> moves = ledger_.PlanGrant(2);
  ASSERT_THAT(moves, SizeIs(1));
  EXPECT_TRUE(moves[0].evict);
  EXPECT_EQ(moves[0].segment, moments);
  EXPECT_EQ(moves[0].range.bytes(), 2 * kBlock);  // ten blocks in eight: two overlap
  ledger_.FinishMove(moves[0]);
  EXPECT_THAT(ledger_.PlanGrant(2), IsEmpty());
  ledger_.Keep(2, {kv});
  const std::vector<Move> back = ledger_.PlanGrant(1);
  ASSERT_THAT(back, SizeIs(2));  // first the other's bytes go, then the own ones come
  EXPECT_TRUE(back[0].evict);
  EXPECT_EQ(back[0].segment, kv);
  EXPECT_FALSE(back[1].evict);
  ledger_.CheckInvariants();
}

TEST_F(PoolLedgerTest, DroppedSegmentsAreLostAndMoveNothing) {
  const SegmentId gradients = Make(1, Private("gradients", 8 * kBlock, false, true));
  Make(2, Private("kv", 8 * kBlock));
  ledger_.Keep(1, {});
  EXPECT_THAT(ledger_.PlanGrant(2), IsEmpty());
  EXPECT_THAT(ledger_.Lost(1), ElementsAre(gradients));
}

TEST_F(PoolLedgerTest, KeepNeedsHostMemoryThatWasReserved) {
  const SegmentId plain = Make(1, Private("plain", kBlock));
  EXPECT_THAT(ledger_.CheckKeep(1, {plain}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("may_evict")));
  EXPECT_THAT(ledger_.CheckKeep(2, {plain}), StatusIs(absl::StatusCode::kNotFound, HasSubstr("own private")));
  Make(1, Private("a", 7 * kBlock, true));
  Make(2, Private("b", 8 * kBlock, false, true));
  EXPECT_THAT(ledger_.Create(3, "t3", Private("c", 2 * kBlock, true)),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr(absl::StrCat(kBlock, " are missing"))));
}

TEST_F(PoolLedgerTest, ARefusalSaysWhatIsMissingAndWhoHoldsWhat) {
  Make(1, Shared("weights", 5 * kBlock));
  EXPECT_THAT(
      ledger_.Create(2, "t2", Shared("more", 4 * kBlock)),
      StatusIs(absl::StatusCode::kResourceExhausted,
               ::testing::AllOf(HasSubstr(absl::StrCat(kBlock, " are missing")), HasSubstr("t1 shared 'weights'"))));
  EXPECT_THAT(ledger_.Create(1, "t1", Private("weights", 1)),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("'weights'")));
  EXPECT_THAT(ledger_.Create(1, "t1", Private("none", 0)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0")));
  EXPECT_THAT(ledger_.Create(1, "t1", Private("huge", UINT64_MAX)),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("missing")));
}

TEST_F(PoolLedgerTest, NothingNewLiesOnQuarantinedBytesAndWhoLiesThereIsNotGranted) {
  const SegmentId moments = Make(1, Private("moments", 4 * kBlock, true));
  Make(2, Private("kv", 8 * kBlock));
  ledger_.Quarantine(moments);
  EXPECT_TRUE(ledger_.TouchesQuarantine(2));
  EXPECT_FALSE(ledger_.TouchesQuarantine(3));
  const SegmentId other = Make(3, Private("other", 4 * kBlock));
  EXPECT_FALSE(RangeOf(other).Overlaps(RangeOf(moments)));
  ledger_.CheckInvariants();
  ledger_.Remove(moments);
  EXPECT_FALSE(ledger_.TouchesQuarantine(2));
  EXPECT_EQ(ledger_.Accounting().host_reserved_bytes, 0U);
}

// Random histories against a model that holds the contents of each granule of the arena and of the host copies.
class History {
 public:
  explicit History(uint32_t seed) : random_(seed) {}

  void Run(int steps) {
    for (int i = 0; i < steps; ++i) {
      switch (Draw(5)) {
        case 0:
          Create();
          break;
        case 1:
          Release();
          break;
        case 2:
          Quarantine();
          break;
        default:
          TakeTurn();
      }
      ledger_.CheckInvariants();
    }
  }
  int restored() const { return restored_; }

 private:
  uint32_t Draw(uint32_t n) { return static_cast<uint32_t>(random_() % n); }

  void Create() {
    const SessionId owner = 1 + Draw(3);
    SegmentSpec spec{.name = absl::StrCat("s", ++names_), .bytes = (1 + Draw(40)) * kGranule - Draw(100)};
    if (Draw(4) == 0) spec.kind = SegmentKind::kShared;
    spec.usually_kept = Draw(3) == 0;
    spec.may_evict = Draw(2) == 0;
    const absl::StatusOr<SegmentId> id = ledger_.Create(owner, absl::StrCat("t", owner), spec);
    if (id.ok() && owner == holder_) ApplyMoves();  // made inside a turn
  }

  std::optional<SegmentId> Pick() {
    if (ledger_.segments().empty()) return std::nullopt;
    auto at = ledger_.segments().begin();
    std::advance(at, Draw(static_cast<uint32_t>(ledger_.segments().size())));
    return at->first;
  }
  void Release() {
    if (const auto id = Pick()) {
      ledger_.Remove(*id);
      expected_.erase(*id);
      host_.erase(*id);
    }
  }
  void Quarantine() {
    const auto id = Pick();
    if (!id || Draw(3) != 0) return;
    ledger_.Quarantine(*id);
    expected_.erase(*id);
  }

  void ApplyMoves() {
    for (const Move& move : ledger_.PlanGrant(holder_)) {
      for (uint64_t at = move.range.begin; at < move.range.end; at += kGranule) {
        uint64_t& host = host_[move.segment][at];
        uint64_t& arena = arena_[at / kGranule];
        (move.evict ? host : arena) = move.evict ? arena : host;
      }
      restored_ += move.evict ? 0 : 1;
      ledger_.FinishMove(move);
    }
    EXPECT_THAT(ledger_.PlanGrant(holder_), IsEmpty());
  }

  void TakeTurn() {
    holder_ = 1 + Draw(3);
    if (ledger_.TouchesQuarantine(holder_)) return;
    ApplyMoves();
    const std::vector<SegmentId> lost = ledger_.Lost(holder_);
    const std::set<SegmentId> lost_set(lost.begin(), lost.end());
    for (const auto& [id, contents] : expected_) {
      const SegmentRecord* segment = ledger_.Find(id);
      if (segment->owner != holder_) continue;
      EXPECT_FALSE(lost_set.contains(id));
      for (const auto& [at, value] : contents)
        ASSERT_EQ(arena_[at / kGranule], value) << "kept bytes changed, segment " << id;
    }
    if (Draw(2) == 0) Create();
    std::vector<SegmentId> keep;
    for (const SegmentId id : ledger_.SegmentsOf(holder_)) {
      const SegmentRecord* segment = ledger_.Find(id);
      if (segment->spec.kind != SegmentKind::kPrivate || segment->quarantined) continue;
      expected_.erase(id);
      const bool kept = segment->has_host_memory() && Draw(3) != 0;
      if (kept) keep.push_back(id);
      for (uint64_t at = segment->range.begin; at < segment->range.end; at += kGranule) {
        arena_[at / kGranule] = ++stamp_;  // the holder writes all of its bytes
        if (kept) expected_[id][at] = stamp_;
      }
    }
    ledger_.Keep(holder_, keep);
    holder_ = 0;
  }

  std::mt19937 random_;
  PoolLedger ledger_{kArena, kBlock, kHost};
  SessionId holder_ = 0;
  int names_ = 0;
  int restored_ = 0;
  uint64_t stamp_ = 0;
  uint64_t arena_[kArena / kGranule] = {};
  std::map<SegmentId, std::map<uint64_t, uint64_t>> host_, expected_;
};

TEST(PoolLedgerHistory, KeptContentsComeBackInAnyOrderOfEvents) {
  int restored = 0;
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    History history(seed);
    history.Run(200);
    restored += history.restored();
    if (::testing::Test::HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_GT(restored, 1000);  // the histories do exercise it
}

}  // namespace
}  // namespace tandem::arbiter
