// The daemons under `tandem up`: starting, looking, killing, stopping.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/integration/cluster.h"

namespace tandem::testing {
namespace {

using ::testing::HasSubstr;

nlohmann::json StatusJson(Cluster& cluster) {
  return nlohmann::json::parse(cluster.Run({"status", "-o", "json"}).out, nullptr, /*allow_exceptions=*/false);
}

TEST(SupervisorTest, UpServesStatusShowsAndDownLeavesNothingRunning) {
  Cluster cluster;
  const CliResult up = cluster.Up();
  ASSERT_EQ(up.code, 0) << up.err;
  const nlohmann::json status = StatusJson(cluster);
  for (const char* daemon : {"arbiter", "inference", "trainer"}) EXPECT_TRUE(status[daemon]["reachable"]) << daemon;
  EXPECT_EQ(status["arbiter"]["pool"]["arena_bytes"], std::to_string(512 << 20));
  EXPECT_EQ(cluster.Run({"status"}).code, 0);

  const CliResult down = cluster.Down();
  EXPECT_EQ(down.code, 0);
  EXPECT_THAT(down.err, HasSubstr("stopped: trainer, inference, arbiter, supervisor"));
  for (const char* name : {"arbiter", "inference", "trainer", "supervisor"}) EXPECT_EQ(cluster.Pid(name), 0) << name;
  EXPECT_EQ(cluster.Run({"status"}).code, 3);
}

TEST(SupervisorTest, ADaemonThatIsKilledIsStartedAgain) {
  Cluster cluster;
  ASSERT_EQ(cluster.Up().code, 0);
  for (const char* daemon : {"inference", "trainer", "arbiter"}) {
    const pid_t before = cluster.Pid(daemon);
    cluster.Kill(daemon);
    EXPECT_TRUE(Eventually([&] { return cluster.Pid(daemon) != 0 && cluster.Pid(daemon) != before; })) << daemon;
    EXPECT_TRUE(cluster.WaitServing(daemon)) << daemon;
  }
  EXPECT_TRUE(Eventually([&] { return cluster.Run({"status"}).code == 0; }));
}

TEST(SupervisorTest, ADaemonThatCanNotStartIsGivenUpWithItsLog) {
  Cluster cluster;
  const CliResult up = cluster.Up({"--pool_bytes=1000TiB"});
  EXPECT_EQ(up.code, 2);
  EXPECT_THAT(up.err, HasSubstr("tandem-arbiter died again and again (exit code 2)"));
  EXPECT_THAT(up.err, HasSubstr(cluster.run_dir().Log("arbiter")));
  for (const char* name : {"arbiter", "inference", "trainer", "supervisor"}) EXPECT_EQ(cluster.Pid(name), 0) << name;
}

TEST(SupervisorTest, ASecondUpFindsTheFirst) {
  Cluster cluster;
  ASSERT_EQ(cluster.Up().code, 0);
  const pid_t arbiter = cluster.Pid("arbiter");
  const CliResult again = cluster.Up();
  EXPECT_EQ(again.code, 0);
  EXPECT_THAT(again.err, HasSubstr("already up"));
  EXPECT_EQ(cluster.Pid("arbiter"), arbiter);
}

TEST(SupervisorTest, TheSupervisorsDeathStopsNothingAndTheNextOneAdoptsTheDaemons) {
  Cluster cluster;
  ASSERT_EQ(cluster.Up().code, 0);
  const pid_t arbiter = cluster.Pid("arbiter");
  cluster.Kill("supervisor");
  EXPECT_EQ(cluster.Run({"status"}).code, 0);
  ASSERT_EQ(cluster.Up().code, 0);
  EXPECT_EQ(cluster.Pid("arbiter"), arbiter);
  // An adopted daemon is watched like a child.
  cluster.Kill("trainer");
  EXPECT_TRUE(Eventually([&] { return cluster.Pid("trainer") != 0; }));
}

TEST(SupervisorTest, DownStopsDaemonsThatHaveNoSupervisor) {
  Cluster cluster;
  ASSERT_EQ(cluster.Up().code, 0);
  cluster.Kill("supervisor");
  EXPECT_THAT(cluster.Down().err, HasSubstr("stopped: trainer, inference, arbiter"));
  for (const char* name : {"arbiter", "inference", "trainer"}) EXPECT_EQ(cluster.Pid(name), 0) << name;
}

}  // namespace
}  // namespace tandem::testing
