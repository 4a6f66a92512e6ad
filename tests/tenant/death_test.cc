// How tenants and the arbiter end, in real processes: kills, hangs, forks, broken streams.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <algorithm>
#include <csignal>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/file.h"
#include "tests/tenant/cluster.h"

namespace tandem::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const v1::TenantInfo* FindTenant(const v1::GetStateReply& state, const std::string& name) {
  for (const v1::TenantInfo& tenant : state.tenants()) {
    if (tenant.name() == name) return &tenant;
  }
  return nullptr;
}

uint64_t TokenOf(const std::string& answer) {
  const std::vector<std::string> words = absl::StrSplit(answer, ' ');
  uint64_t token = 0;
  EXPECT_TRUE(words.size() > 1 && absl::SimpleAtoi(words[1], &token)) << answer;
  return token;
}

void AwaitWaiters(Cluster& cluster, int count) {
  cluster.AwaitState("waiters", [&](const auto& state) { return state.waiters_size() == count; });
}

// The parameter is how pidfds are taken.
class Death : public ::testing::TestWithParam<std::vector<std::string>> {};

TEST_P(Death, AKilledHoldersTurnGoesOnAfterTheProofOfItsEnd) {
  Cluster cluster(GetParam());
  auto trainer = cluster.Tenant("trainer");
  auto inference = cluster.Tenant("inference");
  ASSERT_THAT(trainer->Do("private moments 8000000 kept"), StartsWith("ok"));
  const uint64_t first = TokenOf(trainer->Do("turn 5000"));
  inference->Begin("turn 10000");
  AwaitWaiters(cluster, 1);
  trainer->process().Signal(SIGKILL);
  EXPECT_GT(TokenOf(inference->End()), first);
  const std::string log = cluster.ArbiterLog();
  const size_t gone = log.find("tenant=trainer pid=" + std::to_string(trainer->process().pid()) + " is gone");
  const size_t granted = log.rfind("turn granted");
  EXPECT_NE(gone, std::string::npos);
  EXPECT_LT(gone, granted) << "granted before the proof";
  const v1::GetStateReply state = cluster.State();
  EXPECT_EQ(state.pool().free_bytes(), state.pool().arena_bytes());
  EXPECT_EQ(state.pool().host_reserved_bytes(), 0U);
}

TEST_P(Death, AStoppedHolderIsRevokedThenKilled) {
  std::vector<std::string> flags = {"--quantum_ms", "100", "--revoke_grace_ms", "300"};
  flags.insert(flags.end(), GetParam().begin(), GetParam().end());
  Cluster cluster(flags);
  auto trainer = cluster.Tenant("trainer", /*longest_unit_ms=*/50);
  auto inference = cluster.Tenant("inference");
  ASSERT_THAT(trainer->Do("turn 5000"), StartsWith("ok"));
  trainer->process().Signal(SIGSTOP);
  EXPECT_THAT(inference->Do("turn 10000"), StartsWith("ok"));
  EXPECT_EQ(trainer->process().Wait(), -SIGKILL);
  EXPECT_THAT(cluster.ArbiterLog(), HasSubstr("is killed: the hard deadline of a revoke passed"));
}

INSTANTIATE_TEST_SUITE_P(Pidfds, Death,
                         ::testing::Values(std::vector<std::string>{}, std::vector<std::string>{"--pidfd-open"}),
                         [](const auto& info) { return info.param.empty() ? "OfThePeer" : "Opened"; });

TEST(Ends, AHolderThatYieldsWhenAskedIsNotKilled) {
  Cluster cluster({"--quantum_ms", "50"});
  auto trainer = cluster.Tenant("trainer");
  auto inference = cluster.Tenant("inference");
  ASSERT_THAT(trainer->Do("turn 5000"), StartsWith("ok"));
  inference->Begin("turn 10000");
  EXPECT_EQ(trainer->Do("await_revoke 5000"), "ok");
  EXPECT_EQ(trainer->Do("yield"), "ok");
  EXPECT_THAT(inference->End(), StartsWith("ok"));
  EXPECT_THAT(cluster.ArbiterLog(), HasSubstr("reason=quantum"));
}

TEST(Ends, AnOwnersDeathRetiresItsSetAndItsBlocksAreReusedOnlyAfterTheReadersUnmap) {
  Cluster cluster;
  auto trainer = cluster.Tenant("trainer");
  auto inference = cluster.Tenant("inference");
  ASSERT_THAT(trainer->Do("shared weights 41943040"), StartsWith("ok"));
  ASSERT_THAT(trainer->Do("set job weights m"), StartsWith("ok"));
  ASSERT_THAT(trainer->Do("turn 5000"), StartsWith("ok"));
  ASSERT_EQ(trainer->Do("begin job"), "ok");
  ASSERT_EQ(trainer->Do("fill weights 5"), "ok");
  ASSERT_EQ(trainer->Do("commit job n"), "ok 1");
  inference->AwaitEvent("set:job:committed:1");
  ASSERT_THAT(inference->Do("map job"), StartsWith("ok"));
  trainer->process().Signal(SIGKILL);
  inference->AwaitEvent("set:job:absent");
  inference->AwaitEvent("unmap:");
  EXPECT_EQ(inference->Do("check job 5"), "ok");  // still mapped, still whole
  auto next = cluster.Tenant("trainer");
  EXPECT_THAT(next->Do("shared weights 41943040"), HasSubstr("RESOURCE_EXHAUSTED"));
  EXPECT_EQ(cluster.State().pool().quarantined_bytes(), 41943040U);
  EXPECT_EQ(inference->Do("unmap job"), "ok");
  cluster.AwaitState("quarantine ends", [](const auto& state) { return state.pool().quarantined_bytes() == 0; });
  EXPECT_THAT(next->Do("shared weights 41943040"), StartsWith("ok"));
  // The successor's versions go on above.
  ASSERT_THAT(next->Do("set job weights m"), StartsWith("ok"));
  ASSERT_THAT(next->Do("turn 5000"), StartsWith("ok"));
  ASSERT_EQ(next->Do("begin job"), "ok");
  EXPECT_EQ(next->Do("commit job n"), "ok 2");
}

TEST(Ends, DyingInsideTheWriteWindowTearsTheSet) {
  Cluster cluster;
  auto trainer = cluster.Tenant("trainer");
  auto inference = cluster.Tenant("inference");
  ASSERT_THAT(trainer->Do("shared weights 4194304"), StartsWith("ok"));
  ASSERT_THAT(trainer->Do("set job weights m"), StartsWith("ok"));
  ASSERT_THAT(trainer->Do("turn 5000"), StartsWith("ok"));
  ASSERT_EQ(trainer->Do("begin job"), "ok");
  EXPECT_THAT(trainer->Do("yield"), HasSubstr("FAILED_PRECONDITION"));
  trainer->process().Signal(SIGKILL);
  const std::string events = inference->AwaitEvent("set:job:absent");
  EXPECT_THAT(events, HasSubstr("set:job:torn:0"));
}

TEST(Ends, AForkedChildThatHoldsTheLifelineKeepsTheBytesQuarantined) {
  Cluster cluster;
  auto trainer = cluster.Tenant("trainer");
  auto inference = cluster.Tenant("inference");
  ASSERT_THAT(trainer->Do("private moments 8388608 kept"), StartsWith("ok"));
  ASSERT_THAT(trainer->Do("turn 5000"), StartsWith("ok"));
  const auto child = static_cast<pid_t>(TokenOf(trainer->Do("fork")));
  trainer->process().Signal(SIGKILL);
  EXPECT_THAT(inference->Do("turn 10000"), StartsWith("ok"));  // nothing of the trainer runs
  const v1::GetStateReply state = cluster.State();
  EXPECT_EQ(state.pool().quarantined_bytes(), 8388608U);
  ASSERT_NE(FindTenant(state, "trainer"), nullptr);
  EXPECT_EQ(FindTenant(state, "trainer")->turn_state(), "dying");
  EXPECT_THAT(FindTenant(state, "trainer")->lifeline_pids(), ::testing::ElementsAre(child));
  kill(child, SIGKILL);
  cluster.AwaitState("the end of file frees it", [](const auto& now) {
    return now.pool().quarantined_bytes() == 0 && FindTenant(now, "trainer") == nullptr;
  });
}

TEST(Ends, ABrokenStreamIsOpenedAgainAndTheTurnStays) {
  Cluster cluster;
  auto trainer = cluster.Tenant("trainer");
  auto inference = cluster.Tenant("inference");
  ASSERT_THAT(trainer->Do("private moments 8388608 kept"), StartsWith("ok"));
  ASSERT_THAT(trainer->Do("shared weights 4194304"), StartsWith("ok"));
  ASSERT_THAT(trainer->Do("set job weights m"), StartsWith("ok"));
  const uint64_t token = TokenOf(trainer->Do("turn 5000"));
  inference->Begin("turn 10000");
  AwaitWaiters(cluster, 1);
  EXPECT_EQ(trainer->Do("break"), "ok");
  EXPECT_EQ(trainer->Do("begin job"), "ok");  // the same token still counts
  EXPECT_EQ(trainer->Do("commit job n"), "ok 1");
  EXPECT_EQ(cluster.State().token(), token);
  EXPECT_EQ(trainer->Do("break"), "ok");
  EXPECT_EQ(trainer->Do("yield moments"), "ok");  // may be lost with the stream, then it is sent again
  EXPECT_GT(TokenOf(inference->End()), token);
  EXPECT_EQ(inference->Do("break"), "ok");
  inference->AwaitEvent("set:job:committed:1");
  EXPECT_EQ(inference->Do("yield"), "ok");
  EXPECT_THAT(trainer->Do("turn 5000"), Not(HasSubstr("moments")));  // kept
}

TEST(Ends, AWaitersBrokenStreamDoesNotLoseItsRequest) {
  Cluster cluster;
  auto trainer = cluster.Tenant("trainer");
  auto inference = cluster.Tenant("inference");
  for (int i = 0; i < 5; ++i) {
    ASSERT_THAT(trainer->Do("turn 5000"), StartsWith("ok"));
    inference->Do("break");
    inference->Begin("turn 10000");
    EXPECT_EQ(trainer->Do("yield"), "ok");
    EXPECT_THAT(inference->End(), StartsWith("ok"));
    EXPECT_EQ(inference->Do("yield"), "ok");
  }
}

TEST(Ends, AWithdrawnRequestIsNotGranted) {
  Cluster cluster;
  auto trainer = cluster.Tenant("trainer");
  auto inference = cluster.Tenant("inference");
  ASSERT_THAT(trainer->Do("turn 5000"), StartsWith("ok"));
  EXPECT_THAT(inference->Do("turn 30"), HasSubstr("DEADLINE_EXCEEDED"));
  AwaitWaiters(cluster, 0);
  EXPECT_EQ(trainer->Do("yield"), "ok");
  EXPECT_THAT(trainer->Do("turn 5000"), StartsWith("ok"));
  EXPECT_EQ(trainer->Do("drop_turn"), "ok");
  EXPECT_THAT(inference->Do("turn 5000"), StartsWith("ok"));
}

TEST(Ends, AGoodbyeFreesEverythingWhileTheProcessLives) {
  Cluster cluster;
  auto trainer = cluster.Tenant("trainer");
  ASSERT_THAT(trainer->Do("private moments 8388608 kept"), StartsWith("ok"));
  EXPECT_EQ(trainer->Do("disconnect"), "ok");
  EXPECT_EQ(trainer->Do("connect"), "ok");
  EXPECT_THAT(trainer->Do("private moments 8388608 kept"), StartsWith("ok"));
  EXPECT_THAT(trainer->Do("turn 5000"), StartsWith("ok"));
  EXPECT_THAT(cluster.ArbiterLog(), HasSubstr("ends: goodbye"));
}

TEST(Ends, TheArbitersDeathIsNoticedAtOnceAndTokensGrowOverItsRestart) {
  Cluster cluster;
  auto trainer = cluster.Tenant("trainer");
  const uint64_t before = TokenOf(trainer->Do("turn 5000"));
  cluster.arbiter().Signal(SIGKILL);
  EXPECT_THAT(trainer->Do("gone 1000"), StartsWith("ok"));
  EXPECT_THAT(trainer->Do("private more 4096 plain"), HasSubstr("UNAVAILABLE"));
  EXPECT_EQ(trainer->Do("drop_turn"), "ok");
  cluster.RestartArbiter();
  EXPECT_EQ(trainer->Do("disconnect"), "ok");
  EXPECT_EQ(trainer->Do("connect"), "ok");
  EXPECT_GT(TokenOf(trainer->Do("turn 5000")), before);
}

TEST(Ends, ATermSignalEndsTheArbiterCleanly) {
  Cluster cluster;
  auto trainer = cluster.Tenant("trainer");
  cluster.arbiter().Signal(SIGTERM);
  EXPECT_EQ(cluster.arbiter().Wait(), 0);
  EXPECT_THAT(trainer->Do("gone 1000"), StartsWith("ok"));
}

TEST(Ends, ASecondArbiterOnTheSameDirectoryIsRefusedInOneLine) {
  Cluster cluster;
  auto trainer = cluster.Tenant("trainer");
  const std::string log = cluster.run_dir() + "/second.log";
  ChildProcess second(ArbiterCommand(cluster.run_dir(), {"--pool_bytes", "4194304"}), log);
  EXPECT_EQ(second.Wait(), 2);
  const std::string text = ReadFile(log).value_or("");
  EXPECT_THAT(text, HasSubstr(std::to_string(cluster.arbiter().pid())));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_THAT(trainer->Do("turn 5000"), StartsWith("ok"));  // the first one is undisturbed
}

TEST(Ends, ABadStartIsOneLineAndExitCodeTwo) {
  TempDir dir;
  ChildProcess arbiter(ArbiterCommand(dir.path(), {"--pool_bytes", "1000000000000000"}), dir.File("log"));
  EXPECT_EQ(arbiter.Wait(), 2);
  const std::string text = ReadFile(dir.File("log")).value_or("");
  EXPECT_THAT(text, HasSubstr("are missing"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

}  // namespace
}  // namespace tandem::testing
