// A random history of real processes: turns, kept contents, commits, broken streams, kill -9. Whatever happens,
// contents that were kept come back, a reader sees what was committed, and the pool's sums hold (Cluster::State checks
// them).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/tenant/cluster.h"

namespace tandem::testing {
namespace {

using ::testing::StartsWith;

class Actor {
 public:
  Actor(Cluster& cluster, std::string name) : cluster_(cluster), name_(std::move(name)) { Start(); }

  void Start() {
    process_ = cluster_.Tenant(name_);
    kept_.clear();
    committed_seed_ = 0;
    ASSERT_THAT(process_->Do("shared weights 8388608"), StartsWith("ok"));
    ASSERT_THAT(process_->Do("private a 22000000 kept"), StartsWith("ok"));  // both together: more than the pool
    ASSERT_THAT(process_->Do("private b 14000000 evictable"), StartsWith("ok"));
    ASSERT_THAT(process_->Do(absl::StrCat("set set-", name_, " weights m")), StartsWith("ok"));
  }

  void TakeTurn(std::mt19937& random, bool break_stream) {
    const std::string granted = process_->Do("turn 10000");
    ASSERT_THAT(granted, StartsWith("ok"));
    for (const char* name : {"a", "b"}) {
      const bool lost = absl::StrContains(granted, absl::StrCat(" ", name));
      ASSERT_EQ(lost, !kept_.contains(name)) << granted;
      if (lost) continue;
      ASSERT_EQ(process_->Do(absl::StrCat("check ", name, " ", kept_[name])), "ok");
    }
    if (break_stream) process_->Do("break");
    if (random() % 2 == 0) Commit(random() % 1000 + 1);
    kept_.clear();
    std::string yield = "yield";
    for (const char* name : {"a", "b"}) {
      const uint32_t seed = random() % 1000;
      ASSERT_EQ(process_->Do(absl::StrCat("fill ", name, " ", seed)), "ok");
      if (random() % 3 == 0) continue;
      kept_[name] = seed;
      absl::StrAppend(&yield, " ", name);
    }
    if (break_stream) process_->Do("break");
    ASSERT_EQ(process_->Do(yield), "ok");
  }

  // Reads the other's weights in place.
  void Read(const Actor& other) {
    if (other.committed_seed_ == 0) return;
    ASSERT_THAT(process_->Do("turn 10000"), StartsWith("ok"));
    const std::string set = absl::StrCat("set-", other.name_);
    ASSERT_THAT(process_->Do(absl::StrCat("map ", set)), StartsWith("ok"));
    EXPECT_EQ(process_->Do(absl::StrCat("check ", set, " ", other.committed_seed_)), "ok");
    std::string yield = "yield";
    for (const auto& [name, seed] : kept_) absl::StrAppend(&yield, " ", name);
    ASSERT_EQ(process_->Do(absl::StrCat("unmap ", set)), "ok");
    ASSERT_EQ(process_->Do(yield), "ok");
  }

  // Dies, sometimes inside a turn or a write window.
  void DieAndReturn(std::mt19937& random) {
    const uint32_t depth = random() % 3;
    if (depth > 0) {
      ASSERT_THAT(process_->Do("turn 10000"), StartsWith("ok"));
    }
    if (depth > 1) {
      ASSERT_EQ(process_->Do(absl::StrCat("begin set-", name_)), "ok");
    }
    process_->process().Signal(SIGKILL);
    process_->process().Wait();
    const std::string name = name_;
    cluster_.AwaitState("the dead are gone", [&](const v1::GetStateReply& state) {
      return std::none_of(state.tenants().begin(), state.tenants().end(),
                          [&](const v1::TenantInfo& tenant) { return tenant.name() == name; });
    });
    Start();
  }

 private:
  void Commit(uint32_t seed) {
    ASSERT_EQ(process_->Do(absl::StrCat("begin set-", name_)), "ok");
    ASSERT_EQ(process_->Do(absl::StrCat("fill weights ", seed)), "ok");
    ASSERT_THAT(process_->Do(absl::StrCat("commit set-", name_, " n")), StartsWith("ok"));
    committed_seed_ = seed;
  }

  Cluster& cluster_;
  const std::string name_;
  std::unique_ptr<TenantProcess> process_;
  std::map<std::string, uint32_t> kept_;
  uint32_t committed_seed_ = 0;
};

TEST(History, NothingKeptOrCommittedIsLostWhateverDies) {
  Cluster cluster;
  std::mt19937 random(20);
  Actor actors[] = {{cluster, "one"}, {cluster, "two"}};
  for (int step = 0; step < 40 && !::testing::Test::HasFatalFailure(); ++step) {
    Actor& actor = actors[random() % 2];
    Actor& other = &actor == actors ? actors[1] : actors[0];
    switch (random() % 6) {
      case 0:
        actor.DieAndReturn(random);
        break;
      case 1:
        actor.Read(other);
        break;
      default:
        actor.TakeTurn(random, /*break_stream=*/random() % 3 == 0);
    }
    cluster.State();
  }
  EXPECT_GT(cluster.State().pool().restored_bytes_total(), 0U);
}

}  // namespace
}  // namespace tandem::testing
