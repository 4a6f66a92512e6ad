#include "services/inference/batch_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "tests/testing/status_matchers.h"

namespace tandem::inference {
namespace {

using ::tandem::testing::IsOk;
using ::tandem::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

uint64_t Mix(uint64_t hash, uint64_t value) {
  return (hash ^ value) * 0x9E3779B97F4A7C15ULL + (hash >> 29);
}

// Stands for the model: the "keys and values" of a position are a hash of all tokens up to it and of the version, kept
// in the block the scheduler chose. A step checks that every earlier position lies where it should, with this version.
class FakeModel {
 public:
  FakeModel(const SchedulerLimits& limits, uint64_t seed) : scheduler(limits), limits_(limits), seed_(seed) {
    slots_.resize(SlotIndex(limits.kv_blocks, 0), 0);
  }

  void Add(uint64_t id, std::vector<std::vector<int>> prompts, int n, int max_tokens) {
    limits_of_[id] = max_tokens;
    ASSERT_THAT(scheduler.Add({.id = id, .prompts = std::move(prompts), .n = n, .max_tokens = max_tokens}), IsOk());
  }

  // Runs one step; false when there was nothing to do.
  bool Step() {
    const std::vector<PlanPiece> plan = scheduler.Next();
    CheckPlan(plan);
    for (const PlanPiece& piece : plan) Compute(piece);
    scheduler.Computed(plan);
    for (const PlanPiece& piece : plan) {
      if (piece.output()) Sample(*piece.sequence);
    }
    return !plan.empty();
  }

  void NewVersion() {
    ++version;
    scheduler.Recompute();
  }

  BatchScheduler scheduler;
  uint64_t version = 1;
  // (request, index) -> completion.
  std::map<std::pair<uint64_t, int>, std::vector<int>> done;
  int largest_step = 0;

 private:
  void CheckPlan(const std::vector<PlanPiece>& plan) {
    int decode = 0;
    int other = 0;
    std::set<std::pair<uint64_t, int>> seen;
    for (const PlanPiece& piece : plan) {
      ASSERT_TRUE(seen.insert(piece.sequence->order()).second);
      ASSERT_EQ(piece.begin, piece.sequence->computed);
      ASSERT_GT(piece.count, 0);
      (piece.count == 1 && piece.begin > 0 ? decode : other) += piece.count;
    }
    ASSERT_LE(other, limits_.prefill_tokens);
    ASSERT_LE(decode + other, limits_.max_batch + limits_.prefill_tokens);
    largest_step = std::max(largest_step, decode + other);
  }

  size_t SlotIndex(int block, int offset) const {
    return static_cast<size_t>(block) * static_cast<size_t>(limits_.block_positions) + static_cast<size_t>(offset);
  }

  uint64_t& Slot(const Sequence& sequence, int position) {
    const int block = sequence.blocks.ids().at(static_cast<size_t>(position / limits_.block_positions));
    return slots_[SlotIndex(block, position % limits_.block_positions)];
  }

  void Compute(const PlanPiece& piece) {
    uint64_t hash = version;
    for (int p = 0; p < piece.begin + piece.count; ++p) {
      hash = Mix(hash, static_cast<uint64_t>(piece.sequence->tokens[static_cast<size_t>(p)]));
      if (p < piece.begin) {
        ASSERT_EQ(Slot(*piece.sequence, p), hash) << "position " << p << " of request " << piece.sequence->request;
      } else {
        const int block = piece.sequence->blocks.ids().at(static_cast<size_t>(p / limits_.block_positions));
        ASSERT_EQ(scheduler.blocks().references(block), 1) << "writes a shared block";
        Slot(*piece.sequence, p) = hash;
      }
    }
  }

  void Sample(Sequence& sequence) {
    const int forks = sequence.forks;
    for (int sample = 1; sample < forks; ++sample) {
      std::optional<BlockCopy> copy;
      Sequence* started = scheduler.Start(sequence, sample, copy);
      if (copy) {
        for (int p = 0; p < limits_.block_positions; ++p) {
          slots_[SlotIndex(copy->to, p)] = slots_[SlotIndex(copy->from, p)];
        }
      }
      AppendNext(*started);
    }
    AppendNext(sequence);
  }

  void AppendNext(Sequence& sequence) {
    uint64_t hash = Mix(seed_, static_cast<uint64_t>(sequence.index));
    for (const int token : sequence.tokens) hash = Mix(hash, static_cast<uint64_t>(token));
    const int token = static_cast<int>(hash >> 40 & 1023);
    scheduler.Append(sequence, token);
    if (token % 16 != 0 && sequence.completion_tokens() < limits_of_[sequence.request]) return;
    const std::unique_ptr<Sequence> finished = scheduler.Finish(sequence);
    done[finished->order()].assign(finished->tokens.begin() + finished->prompt_tokens, finished->tokens.end());
  }

  SchedulerLimits limits_;
  uint64_t seed_;
  std::vector<uint64_t> slots_;
  std::map<uint64_t, int> limits_of_;
};

std::vector<int> Prompt(int tokens, int salt) {
  std::vector<int> prompt;
  prompt.reserve(static_cast<size_t>(tokens));
  for (int i = 0; i < tokens; ++i) prompt.push_back((i * 37 + salt * 101) % 1000);
  return prompt;
}

TEST(BatchSchedulerTest, PromptsAreComputedInChunksAndDecodeGoesOnBesideThem) {
  BatchScheduler scheduler({.kv_blocks = 100, .max_batch = 8, .prefill_tokens = 32});
  ASSERT_THAT(scheduler.Add({.id = 1, .prompts = {Prompt(10, 0)}, .max_tokens = 50}), IsOk());
  std::vector<PlanPiece> plan = scheduler.Next();
  ASSERT_EQ(plan.size(), 1U);
  EXPECT_TRUE(plan[0].output());
  scheduler.Computed(plan);
  scheduler.Append(*plan[0].sequence, 7);
  ASSERT_THAT(scheduler.Add({.id = 2, .prompts = {Prompt(70, 1)}, .max_tokens = 50}), IsOk());
  for (const int expected : {32, 32, 6}) {
    plan = scheduler.Next();
    ASSERT_EQ(plan.size(), 2U);
    EXPECT_EQ(plan[0].sequence->request, 1U);
    EXPECT_EQ(plan[0].count, 1);
    EXPECT_EQ(plan[1].count, expected);
    EXPECT_EQ(plan[1].output(), expected == 6);
    scheduler.Computed(plan);
    scheduler.Append(*plan[0].sequence, 7);
  }
}

TEST(BatchSchedulerTest, TheSameHistoryGivesTheSamePlans) {
  const auto history = [] {
    std::vector<std::vector<int>> trace;
    FakeModel model({.kv_blocks = 12, .max_batch = 6, .prefill_tokens = 20}, 5);
    for (uint64_t id = 1; id <= 6; ++id) model.Add(id, {Prompt(static_cast<int>(id) * 7, static_cast<int>(id))}, 2, 20);
    while (model.Step()) trace.push_back({model.scheduler.running(), model.scheduler.blocks().used()});
    return trace;
  };
  EXPECT_EQ(history(), history());
}

TEST(BatchSchedulerTest, CompletionsOfAPromptShareItsFullBlocks) {
  FakeModel model({.kv_blocks = 64, .max_batch = 16, .prefill_tokens = 64}, 1);
  model.Add(1, {Prompt(40, 0)}, 8, 4);
  ASSERT_TRUE(model.Step());
  // Two full blocks once, and a third one for each completion that did not end at once.
  EXPECT_EQ(model.scheduler.blocks().used(), 2 + model.scheduler.running());
}

TEST(BatchSchedulerTest, AFullQueueRefusesAndSaysSo) {
  BatchScheduler scheduler({.kv_blocks = 4, .max_batch = 1, .prefill_tokens = 16, .max_waiting = 2});
  ASSERT_THAT(scheduler.Add({.id = 1, .prompts = {Prompt(4, 0)}}), IsOk());
  ASSERT_THAT(scheduler.Add({.id = 2, .prompts = {Prompt(4, 0)}}), IsOk());
  EXPECT_THAT(scheduler.Add({.id = 3, .prompts = {Prompt(4, 0)}}),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("2 requests wait already")));
  scheduler.Next();  // admits the first
  EXPECT_EQ(scheduler.waiting_requests(), 1);
  EXPECT_THAT(scheduler.Add({.id = 4, .prompts = {Prompt(4, 0)}}), IsOk());
}

TEST(BatchSchedulerTest, ACompletionThatCanNeverFitIsRefusedWithNumbers) {
  BatchScheduler scheduler({.kv_blocks = 4, .max_batch = 1, .prefill_tokens = 16});
  EXPECT_THAT(scheduler.Add({.id = 1, .prompts = {Prompt(60, 0)}, .max_tokens = 5}), IsOk());
  EXPECT_THAT(scheduler.Add({.id = 2, .prompts = {Prompt(60, 0)}, .max_tokens = 6}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("needs 5 KV blocks, the cache has 4")));
}

TEST(BatchSchedulerTest, RequestsWithoutATokenExpireAtTheirDeadline) {
  BatchScheduler scheduler({.kv_blocks = 8, .max_batch = 8, .prefill_tokens = 64});
  ASSERT_THAT(scheduler.Add({.id = 1, .prompts = {Prompt(4, 0)}, .max_tokens = 9, .deadline = absl::Seconds(5)}),
              IsOk());
  const std::vector<PlanPiece> plan = scheduler.Next();
  scheduler.Computed(plan);
  scheduler.Append(*plan[0].sequence, 1);
  ASSERT_THAT(scheduler.Add({.id = 2, .prompts = {Prompt(4, 0)}, .deadline = absl::Seconds(7)}), IsOk());
  ASSERT_THAT(scheduler.Add({.id = 3, .prompts = {Prompt(4, 0)}, .deadline = absl::Seconds(6)}), IsOk());
  EXPECT_EQ(scheduler.next_deadline(), absl::Seconds(6));
  EXPECT_THAT(scheduler.Expire(absl::Seconds(5.9)), ::testing::IsEmpty());
  EXPECT_THAT(scheduler.Expire(absl::Seconds(6)), ElementsAre(3));
  EXPECT_THAT(scheduler.Expire(absl::Seconds(60)), ElementsAre(2));
  EXPECT_EQ(scheduler.next_deadline(), absl::InfiniteDuration());
  EXPECT_EQ(scheduler.running(), 1);
}

TEST(BatchSchedulerTest, AbortFreesTheBlocks) {
  FakeModel model({.kv_blocks = 32, .max_batch = 8, .prefill_tokens = 64}, 3);
  model.Add(1, {Prompt(20, 0), Prompt(30, 1)}, 3, 40);
  model.Add(2, {Prompt(9, 2)}, 1, 40);
  for (int i = 0; i < 3; ++i) model.Step();
  EXPECT_GT(model.scheduler.blocks().used(), 1);
  model.scheduler.Abort(1);
  model.scheduler.Abort(1);
  EXPECT_LE(model.scheduler.blocks().used(), 1);
  model.scheduler.Abort(2);
  EXPECT_EQ(model.scheduler.blocks().used(), 0);
  EXPECT_TRUE(model.scheduler.idle());
}

TEST(BatchSchedulerTest, TheYoungestGivesUpItsBlocks) {
  FakeModel model({.kv_blocks = 4, .max_batch = 8, .prefill_tokens = 64}, 9);
  model.Add(1, {Prompt(15, 0)}, 1, 34);
  model.Add(2, {Prompt(15, 1)}, 1, 34);
  while (model.Step()) {
  }
  EXPECT_EQ(model.done.size(), 2U);
  FakeModel roomy({.kv_blocks = 100, .max_batch = 8, .prefill_tokens = 64}, 9);
  roomy.Add(1, {Prompt(15, 0)}, 1, 34);
  roomy.Add(2, {Prompt(15, 1)}, 1, 34);
  while (roomy.Step()) {
  }
  EXPECT_EQ(model.done, roomy.done);
  EXPECT_EQ(roomy.scheduler.preemptions(), 0U);
}

// Random arrivals, aborts and version changes under random limits; what survives must equal each request run alone.
TEST(BatchSchedulerTest, NoHistoryChangesAResult) {
  uint64_t preemptions = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto draw = [&](int low, int high) {
      return low + static_cast<int>(random() % static_cast<uint32_t>(high - low + 1));
    };
    FakeModel model(
        {.kv_blocks = draw(8, 30), .max_batch = draw(1, 12), .prefill_tokens = draw(1, 50), .max_waiting = 100}, seed);
    std::map<std::pair<uint64_t, int>, std::vector<int>> alone;
    std::set<uint64_t> aborted;
    uint64_t next = 1;
    for (int step = 0; step < 4000; ++step) {
      if (next <= 12 && draw(0, 3) == 0) {
        const int n = draw(1, 5);
        const int max_tokens = draw(1, 40);
        std::vector<std::vector<int>> prompts;
        for (int p = draw(1, 3); p > 0; --p) prompts.push_back(Prompt(draw(1, 60), static_cast<int>(next) + p));
        FakeModel one({.kv_blocks = 400, .max_batch = 100, .prefill_tokens = 1000}, seed);
        one.Add(next, prompts, n, max_tokens);
        while (one.Step()) {
        }
        ASSERT_EQ(one.scheduler.blocks().used(), 0);
        alone.merge(one.done);
        model.Add(next++, prompts, n, max_tokens);
      }
      if (draw(0, 60) == 0) model.NewVersion();
      if (draw(0, 80) == 0 && next > 1) {
        const auto id = static_cast<uint64_t>(draw(1, static_cast<int>(next) - 1));
        model.scheduler.Abort(id);
        aborted.insert(id);
      }
      const bool busy = model.Step();
      if (::testing::Test::HasFatalFailure()) return;
      if (!busy && next > 12) break;
      if (!busy) {
        ASSERT_TRUE(model.scheduler.idle());
      }
    }
    ASSERT_TRUE(model.scheduler.idle());
    EXPECT_EQ(model.scheduler.blocks().used(), 0);
    preemptions += model.scheduler.preemptions();
    for (const auto& [order, completion] : alone) {
      const auto it = model.done.find(order);
      if (it == model.done.end()) {
        EXPECT_TRUE(aborted.contains(order.first)) << order.first;
      } else {
        EXPECT_EQ(it->second, completion) << order.first << " " << order.second;
      }
    }
  }
  EXPECT_GT(preemptions, 10U);  // else the test shows nothing
}

}  // namespace
}  // namespace tandem::inference
