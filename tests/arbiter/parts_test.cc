// The small parts: byte ranges, placement, sets and versions, answers, outbox, epoch, options.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bitset>
#include <random>
#include <string>
#include <thread>

#include "arbiter/answer_log.h"
#include "arbiter/arbiter_options.h"
#include "arbiter/epoch_file.h"
#include "arbiter/outbox.h"
#include "arbiter/state/byte_ranges.h"
#include "arbiter/state/placement.h"
#include "arbiter/state/set_registry.h"
#include "common/base/file.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/testing.h"

namespace tandem::arbiter {
namespace {

using ::tandem::testing::IsOk;
using ::tandem::testing::StatusIs;
using ::tandem::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ByteRanges, BehaveLikeASetOfBytes) {
  constexpr size_t kBytes = 64;
  std::mt19937 random(11);
  for (int history = 0; history < 300; ++history) {
    ByteRanges ranges;
    std::bitset<kBytes> model;
    for (int step = 0; step < 30; ++step) {
      const uint64_t begin = random() % kBytes;
      const ByteRange range{begin, begin + random() % (kBytes - begin + 1)};
      const bool add = random() % 2 == 0;
      add ? ranges.Add(range) : ranges.Remove(range);
      for (uint64_t at = range.begin; at < range.end; ++at) model[at] = add;
      ASSERT_EQ(ranges.bytes(), model.count());
      uint64_t end = 0;
      for (const ByteRange& part : ranges.ranges()) {
        ASSERT_LT(part.begin, part.end);
        ASSERT_TRUE(end == 0 || part.begin > end);  // sorted and not touching
        for (uint64_t at = part.begin; at < part.end; ++at) ASSERT_TRUE(model[at]);
        end = part.end;
      }
    }
  }
}

TEST(Placement, PrefersTheFewestKeptBytesThenTheHighestPlace) {
  PrivateSurroundings around;
  EXPECT_EQ(PlacePrivate(100, 10, around), 90U);
  around.forbidden.Add({95, 100});
  EXPECT_EQ(PlacePrivate(100, 10, around), 85U);
  around.sometimes_kept.Add({60, 95});
  EXPECT_EQ(PlacePrivate(100, 10, around), 50U);
  around.usually_kept.Add({0, 60});
  EXPECT_EQ(PlacePrivate(100, 10, around), 85U);  // sometimes kept is the lesser evil
  EXPECT_EQ(PlacePrivate(100, 40, around), 55U);
  EXPECT_EQ(PlacePrivate(100, 96, around), std::nullopt);
}

TEST(Placement, SharedSegmentsAreWholeBlocks) {
  EXPECT_EQ(PlaceShared(100, 10, 20, ByteRanges({5, 6})), 10U);
  EXPECT_EQ(PlaceShared(100, 10, 90, ByteRanges({5, 6})), 10U);
  EXPECT_EQ(PlaceShared(100, 10, 100, ByteRanges({5, 6})), std::nullopt);
  EXPECT_EQ(LongestFreeRun(100, 10, ByteRanges({55, 56})), 50U);
}

SetRecord NewSet(const std::string& name, SessionId owner, SegmentId shared) {
  SetRecord set;
  set.name = name;
  set.owner = owner;
  set.shared_segment = shared;
  return set;
}

TEST(SetRegistry, VersionsGrowFromASetToItsSuccessor) {
  SetRegistry sets;
  ASSERT_OK_AND_ASSIGN(const SetId first, sets.Create(NewSet("job", 1, 10)));
  ASSERT_THAT(sets.BeginWrite(1, first), IsOk());
  ASSERT_OK_AND_ASSIGN(const uint64_t version, sets.Commit(1, first, "n"));
  EXPECT_EQ(sets.Remove(first).state, SetState::kAbsent);
  ASSERT_OK_AND_ASSIGN(const SetId second, sets.Create(NewSet("job", 2, 10)));
  EXPECT_EQ(sets.Find(second)->version, 0U);
  ASSERT_THAT(sets.BeginWrite(2, second), IsOk());
  EXPECT_THAT(sets.Commit(2, second, "n"),
              ::testing::AllOf(IsOk(), ::testing::Truly([&](const auto& newer) { return *newer > version; })));
}

TEST(SetRegistry, OnlyTheOwnerWritesAndOnlyInsideItsWindow) {
  SetRegistry sets;
  ASSERT_OK_AND_ASSIGN(const SetId id, sets.Create(NewSet("job", 1, 10)));
  EXPECT_THAT(sets.Commit(1, id, ""),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no open write window")));
  EXPECT_THAT(sets.BeginWrite(2, id), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("belongs to")));
  ASSERT_THAT(sets.BeginWrite(1, id), IsOk());
  EXPECT_EQ(sets.WindowOf(1), id);
  EXPECT_THAT(sets.BeginWrite(1, id), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("open already")));
  EXPECT_THAT(sets.CheckRetire(1, id), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("being written")));
  EXPECT_THAT(sets.Commit(1, id, std::string(5000, 'n')),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("note")));
  EXPECT_THAT(sets.Tear(1), ElementsAre(id));
  EXPECT_EQ(sets.Find(id)->state, SetState::kTorn);
  EXPECT_THAT(sets.Create(NewSet("other", 1, 10)), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("segment 10")));
}

TEST(AnswerLog, ARepeatedRequestIsAnsweredAndNotDoneAgain) {
  AnswerLog log;
  int done = 0;
  const auto act = [&]() -> Answer { return {absl::OkStatus(), std::to_string(++done)}; };
  EXPECT_EQ(log.Once(1, absl::Seconds(1), act).bytes, "1");
  EXPECT_EQ(log.Once(1, absl::Seconds(1), act).bytes, "1");
  EXPECT_EQ(log.Once(2, absl::Seconds(1), act).bytes, "2");
  for (uint64_t id = 3; id < 3 + AnswerLog::kRemembered; ++id) log.Once(id, absl::Seconds(1), act);
  EXPECT_EQ(log.Once(1, absl::Seconds(1), act).bytes, std::to_string(3 + AnswerLog::kRemembered));  // forgotten
}

TEST(AnswerLog, ARepetitionWaitsForTheFirstOneAtWork) {
  AnswerLog log;
  Mutex gate;
  gate.Lock();
  int done = 0;
  std::thread first([&] {
    log.Once(1, absl::Seconds(10), [&]() -> Answer {
      MutexLock wait(gate);
      return {absl::OkStatus(), std::to_string(++done)};
    });
  });
  const Answer early = log.Once(1, absl::Milliseconds(1), [&]() -> Answer {
    gate.Unlock();  // this thread was first: it does the work, the other one waits
    return {absl::OkStatus(), std::to_string(++done)};
  });
  if (early.status.code() == absl::StatusCode::kDeadlineExceeded) gate.Unlock();
  first.join();
  EXPECT_EQ(log.Once(1, absl::Seconds(1), [] { return Answer{}; }).bytes, "1");
  EXPECT_EQ(done, 1);
}

TEST(Outbox, AFullOutboxClosesInsteadOfGrowing) {
  Outbox outbox;
  for (size_t i = 0; i < Outbox::kMaxEvents; ++i) ASSERT_TRUE(outbox.Push(UnmapEvent{i}));
  EXPECT_TRUE(outbox.Pop(absl::ZeroDuration()).has_value());
  EXPECT_TRUE(outbox.Push(UnmapEvent{0}));
  EXPECT_FALSE(outbox.Push(UnmapEvent{0}));
  EXPECT_TRUE(outbox.closed());
  EXPECT_FALSE(outbox.Pop(absl::Seconds(10)).has_value());
}

TEST(EpochFile, GrowsAtEachStartAndRefusesWhatIsNoNumber) {
  TempDir dir;
  EXPECT_THAT(RaiseEpoch(dir.File("epoch")), IsOk());
  ASSERT_OK_AND_ASSIGN(const uint32_t second, RaiseEpoch(dir.File("epoch")));
  EXPECT_EQ(second, 2U);
  ASSERT_THAT(WriteFileAtomically(dir.File("epoch"), "x"), IsOk());
  EXPECT_THAT(RaiseEpoch(dir.File("epoch")), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("epoch")));
}

TEST(ArbiterOptions, AreValidatedWithFieldAndRemedy) {
  ArbiterOptions options;
  EXPECT_THAT(options.Validate(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--run_dir")));
  options.run_dir = "/tmp/x";
  EXPECT_THAT(options.Validate(), IsOk());
  options.quantum_ms = 0;
  EXPECT_THAT(options.Validate(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--quantum_ms is 0; give 1")));
  ASSERT_THAT(options.Resolve(), IsOk());
  EXPECT_LE(options.pool_bytes, uint64_t{4} << 30);
  EXPECT_EQ(options.host_bytes, options.pool_bytes);
  EXPECT_THAT(options.ToString(), HasSubstr("pool_bytes="));
}

}  // namespace
}  // namespace tandem::arbiter
