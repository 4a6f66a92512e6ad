#include "common/rpc/server.h"

#include <sys/stat.h>

#include "common/rpc/channel.h"
#include "common/rpc/metrics_endpoint.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/testing.h"

namespace tandem::rpc {
namespace {

using ::tandem::testing::IsOk;
using ::tandem::testing::StatusIs;
using ::testing::HasSubstr;

class ServerTest : public ::testing::Test {
 protected:
  testing::TempDir dir_;
};

TEST_F(ServerTest, HealthFollowsSetServingAndTheSocketIsPrivate) {
  v1::Arbiter::Service service;  // every method answers UNIMPLEMENTED
  const std::string socket = dir_.File("arbiter.sock");
  ASSERT_OK_AND_ASSIGN(auto server,
                       RpcServer::Start({.socket_path = socket, .tcp_address = "", .services = {&service}}));
  struct stat info {};
  ASSERT_EQ(stat(socket.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0660U);
  const std::string target = DaemonTarget(dir_.path(), "arbiter");
  EXPECT_THAT(WaitUntilServing(target, absl::Milliseconds(100)),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("not ready")));
  server->SetServing(true);
  EXPECT_THAT(WaitUntilServing(target, absl::Seconds(5)), IsOk());
  server->Drain(absl::Seconds(1));
  EXPECT_FALSE(WaitUntilServing(target, absl::Milliseconds(100)).ok());
}

TEST_F(ServerTest, RunDirIsMadePrivateAndTooLongOnesAreRefused) {
  EXPECT_THAT(PrepareRunDir(dir_.File("a/b")), IsOk());
  struct stat info {};
  ASSERT_EQ(stat(dir_.File("a/b").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0750U);
  EXPECT_THAT(PrepareRunDir(dir_.File(std::string(120, 'x'))),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("too long")));
}

TEST_F(ServerTest, SecondLockNamesTheHolder) {
  const std::string path = dir_.File("arbiter.lock");
  ASSERT_THAT(LockFile(path), IsOk());
  EXPECT_THAT(LockFile(path), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(absl::StrCat(getpid()))));
}

TEST_F(ServerTest, MetricsAddressInUseIsNamed) {
  auto registry = std::make_shared<prometheus::Registry>();
  ASSERT_OK_AND_ASSIGN(auto endpoint, MetricsEndpoint::Start("127.0.0.1:0", registry));
  ASSERT_GT(endpoint->port(), 0);
  const std::string taken = absl::StrCat("127.0.0.1:", endpoint->port());
  EXPECT_THAT(MetricsEndpoint::Start(taken, registry), StatusIs(absl::StatusCode::kUnavailable, HasSubstr(taken)));
  ASSERT_OK_AND_ASSIGN(auto off, MetricsEndpoint::Start("off", registry));
  EXPECT_EQ(off->port(), 0);
}

}  // namespace
}  // namespace tandem::rpc
