#include "services/client/supervisor/daemon_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "common/base/file.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/testing.h"

namespace tandem::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DaemonProcessTest : public ::testing::Test {
 protected:
  absl::StatusOr<DaemonProcess> Shell(const std::string& script) {
    return DaemonProcess::Spawn({"/bin/sh", "-c", script}, log_, pid_file_);
  }

  testing::TempDir temp_;
  const std::string log_ = temp_.File("daemon.log");
  const std::string pid_file_ = temp_.File("daemon.pid");
};

TEST_F(DaemonProcessTest, OutputGoesToTheLogAndTheExitCodeIsReported) {
  ASSERT_OK_AND_ASSIGN(DaemonProcess process, Shell("echo out; echo err >&2; exit 2"));
  ASSERT_TRUE(process.WaitEnd(absl::Seconds(10)));
  EXPECT_EQ(process.Reap(), "exit code 2");
  ASSERT_OK_AND_ASSIGN(const std::string log, ReadFile(log_));
  EXPECT_EQ(log, "out\nerr\n");
}

TEST_F(DaemonProcessTest, RunsInASessionOfItsOwnWithNoSignalBlocked) {
  ASSERT_OK_AND_ASSIGN(DaemonProcess process, Shell("grep SigBlk /proc/self/status; exec sleep 100"));
  EXPECT_EQ(getsid(process.pid()), process.pid());
  process.Signal(SIGTERM);
  ASSERT_TRUE(process.WaitEnd(absl::Seconds(10)));
  EXPECT_EQ(process.Reap(), "signal 15");
}

TEST_F(DaemonProcessTest, ALivingProcessIsAdoptedAndADeadOneIsNot) {
  ASSERT_OK_AND_ASSIGN(DaemonProcess process, Shell("exec sleep 100"));
  const std::optional<DaemonProcess> adopted = DaemonProcess::Adopt(pid_file_);
  ASSERT_TRUE(adopted.has_value());
  EXPECT_EQ(adopted->pid(), process.pid());
  adopted->Signal(SIGKILL);
  ASSERT_TRUE(adopted->WaitEnd(absl::Seconds(10)));
  EXPECT_FALSE(DaemonProcess::Adopt(pid_file_).has_value());
  EXPECT_EQ(process.Reap(), "signal 9");
}

TEST_F(DaemonProcessTest, AProcessThatOnlyHasTheSameNumberIsNotAdopted) {
  ASSERT_THAT(WriteFileAtomically(pid_file_, absl::StrCat(getpid(), " 1\n")), testing::IsOk());
  EXPECT_FALSE(DaemonProcess::Adopt(pid_file_).has_value());
}

TEST_F(DaemonProcessTest, AProcessThatIgnoresTheRequestToStopIsKilled) {
  ASSERT_OK_AND_ASSIGN(DaemonProcess process, Shell("trap '' TERM; echo ready; while :; do sleep 0.05; done"));
  for (int i = 0; i < 1000 && !ReadFile(log_).value_or("").size(); ++i) usleep(10'000);  // until the trap is set
  EXPECT_THAT(StopInOrder({pid_file_}, absl::Milliseconds(50)), ElementsAre(HasSubstr("daemon killed")));
  EXPECT_TRUE(process.Ended());
  EXPECT_NE(access(pid_file_.c_str(), F_OK), 0);
}

TEST_F(DaemonProcessTest, ABinaryThatIsMissingIsNamed) {
  EXPECT_THAT(DaemonProcess::Spawn({"/nowhere/tandem-x"}, log_, pid_file_),
              testing::StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere/tandem-x")));
}

}  // namespace
}  // namespace tandem::client
