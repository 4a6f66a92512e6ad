#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <random>

#include "common/lifeline/lifeline_socket.h"
#include "common/lifeline/message.h"
#include "common/lifeline/message_codec.h"
#include "common/lifeline/peer.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/testing.h"

namespace tandem::lifeline {
namespace {

using tandem::testing::IsOk;
using tandem::testing::StatusIs;
using tandem::testing::TempDir;
using ::testing::HasSubstr;

constexpr absl::Duration kSoon = absl::Seconds(5);

// Both ends of a lifeline within this process.
struct Ends {
  Ends() {
    int fds[2];
    TANDEM_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0);
    a.Reset(fds[0]);
    b.Reset(fds[1]);
  }
  UniqueFd a, b;
};

TEST(Message, ComesOutAsItWentIn) {
  Ends ends;
  const Hello hello{.tenant = "trainer", .longest_unit_ms = 7, .start_time_ticks = 8, .socket_inode = 9};
  ASSERT_THAT(Send(ends.a.get(), hello, {}, kSoon), IsOk());
  absl::StatusOr<Received> received = Receive(ends.b.get(), kSoon);
  ASSERT_THAT(received, IsOk());
  const auto* same = std::get_if<Hello>(&received->message);
  ASSERT_NE(same, nullptr);
  EXPECT_EQ(same->tenant, "trainer");
  EXPECT_EQ(same->longest_unit_ms, 7U);
  EXPECT_EQ(same->socket_inode, 9U);
}

TEST(Message, WithTheMostDescriptorsArrivesWholeAndCloseOnExec) {
  Ends ends;
  std::vector<int> fds(kMaxFdsPerMessage, STDERR_FILENO);
  Blocks blocks{.batch = 1, .access = 2, .blocks = std::vector<uint32_t>(kMaxFdsPerMessage, 5)};
  ASSERT_THAT(Send(ends.a.get(), blocks, fds, kSoon), IsOk());
  absl::StatusOr<Received> received = Receive(ends.b.get(), kSoon);
  ASSERT_THAT(received, IsOk());
  ASSERT_EQ(received->fds.size(), kMaxFdsPerMessage);
  for (const UniqueFd& fd : received->fds) EXPECT_NE(fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(std::get<Blocks>(received->message).blocks.size(), kMaxFdsPerMessage);
}

TEST(Message, DescriptorsThatWereCutOffAreAnError) {
  Ends ends;
  const std::vector<int> fds(50, STDERR_FILENO);
  ASSERT_THAT(Send(ends.a.get(), Blocks{}, fds, kSoon), IsOk());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{.rlim_cur = 20, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  absl::StatusOr<Received> received = Receive(ends.b.get(), kSoon);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_THAT(received, StatusIs(absl::StatusCode::kDataLoss, HasSubstr("MSG_CTRUNC")));
}

TEST(Message, WaitsHaveDeadlinesAndEndsAreErrors) {
  Ends ends;
  EXPECT_THAT(Receive(ends.b.get(), absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("")));
  ends.a.Reset();
  EXPECT_THAT(Receive(ends.b.get(), kSoon), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("closed")));
}

TEST(MessageCodec, HostileBytesAreRefusedNotRead) {
  std::mt19937 random(5);
  const std::string good = Encode(Blocks{.batch = 3, .access = 1, .blocks = {1, 2, 3}});
  ASSERT_THAT(Decode(good), IsOk());
  for (size_t size = 0; size < good.size(); ++size) EXPECT_FALSE(Decode(good.substr(0, size)).ok()) << size;
  EXPECT_FALSE(Decode(good + "x").ok());
  for (int i = 0; i < 20000; ++i) {
    std::string bytes(random() % 40, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    if (bytes.size() >= 4 && i % 2 == 0) bytes.replace(0, 4, std::string("\3\0\0\0", 4));
    Decode(bytes).status().IgnoreError();  // must not crash or allocate wildly
  }
}

TEST(Socket, IsForTheGroupAndReplacesAStaleOne) {
  TempDir dir;
  const std::string path = dir.File("lifeline.sock");
  { ASSERT_THAT(Listen(path), IsOk()); }
  ASSERT_OK_AND_ASSIGN(const UniqueFd listener, Listen(path));
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0660U);
  ASSERT_OK_AND_ASSIGN(const UniqueFd client, Connect(path, kSoon));
  EXPECT_THAT(Accept(listener.get()), IsOk());
  EXPECT_THAT(Connect(std::string(200, 'x'), kSoon), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("longer")));
}

class PeerTest : public ::testing::TestWithParam<PidfdSource> {
 protected:
  // A child that holds the other end and waits for its end.
  void StartChild() {
    child_ = fork();
    if (child_ == 0) {
      const absl::StatusOr<UniqueFd> fd = Connect(path_, kSoon);
      while (fd.ok()) pause();
      _exit(1);
    }
  }
  void SetUp() override {
    if (GetParam() == PidfdSource::kPeerPidfd) {
      Ends ends;
      if (!Peer::Of(ends.a.get(), 0, GetParam()).ok()) GTEST_SKIP() << "this kernel has no SO_PEERPIDFD";
    }
    ASSERT_OK_AND_ASSIGN(listener_, Listen(path_));
    StartChild();
    absl::StatusOr<UniqueFd> socket = Accept(listener_.get());
    while (!socket.ok()) {
      absl::SleepFor(absl::Milliseconds(1));
      socket = Accept(listener_.get());
    }
    socket_ = *std::move(socket);
    ASSERT_OK_AND_ASSIGN(start_time_, StartTimeTicks(child_));
  }
  void TearDown() override {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  TempDir dir_;
  const std::string path_ = dir_.File("s");
  UniqueFd listener_, socket_;
  pid_t child_ = -1;
  uint64_t start_time_ = 0;
};

TEST_P(PeerTest, IsNamedSignalledAndItsExitSeen) {
  ASSERT_OK_AND_ASSIGN(const Peer peer, Peer::Of(socket_.get(), start_time_, GetParam()));
  EXPECT_EQ(peer.pid(), child_);
  EXPECT_THAT(peer.CheckMaySignal(), IsOk());
  EXPECT_FALSE(peer.HasExited());
  EXPECT_NE(fcntl(peer.pidfd(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_THAT(peer.Kill(), IsOk());
  EXPECT_THAT(Receive(socket_.get(), kSoon), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("closed")));
  waitpid(child_, nullptr, 0);
  EXPECT_TRUE(peer.HasExited());
  EXPECT_THAT(peer.Kill(), IsOk());  // gone is as good
  child_ = -1;
}

TEST_P(PeerTest, MayNotBeSignalledByAnotherUserAndTheRefusalNamesTheRemedy) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  ASSERT_OK_AND_ASSIGN(const Peer peer, Peer::Of(socket_.get(), start_time_, GetParam()));
  const pid_t other = fork();
  if (other == 0) {
    if (setuid(65534) != 0) _exit(3);
    const absl::Status allowed = peer.CheckMaySignal();
    const bool good = allowed.code() == absl::StatusCode::kPermissionDenied &&
                      allowed.ToString().find("--allow-unkillable") != std::string::npos;
    _exit(good ? 0 : 1);
  }
  int status = 0;
  waitpid(other, &status, 0);
  EXPECT_EQ(status, 0);
}

INSTANTIATE_TEST_SUITE_P(Sources, PeerTest,
                         ::testing::Values(PidfdSource::kAuto, PidfdSource::kPeerPidfd, PidfdSource::kPidfdOpen));

TEST(Peer, AReusedPidIsNoticedByItsStartTime) {
  Ends ends;
  ASSERT_OK_AND_ASSIGN(const uint64_t start, StartTimeTicks(0));
  EXPECT_THAT(Peer::Of(ends.a.get(), start, PidfdSource::kPidfdOpen), IsOk());
  EXPECT_THAT(Peer::Of(ends.a.get(), start + 1, PidfdSource::kPidfdOpen),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another process")));
}

}  // namespace
}  // namespace tandem::lifeline
