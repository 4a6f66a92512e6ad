// The protocol against a real arbiter, spoken by hand: what a client that does not use the library can and can not do.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <memory>

#include "tests/tenant/cluster.h"
#include "tests/tenant/raw_tenant.h"

namespace tandem::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using MessageCase = v1::ArbiterMessage::MessageCase;

class Protocol : public ::testing::Test {
 protected:
  Cluster cluster_;
};

// A raw tenant that owns a set and holds the turn.
struct Writer {
  explicit Writer(const std::string& run_dir) : tenant(run_dir, "writer"), attached(tenant.Attach()) {
    v1::CreateSetRequest request;
    request.set_request_id(tenant.NextRequestId());
    request.set_name("job");
    request.set_shared_segment_id(tenant.CreateShared("weights", 4194304));
    v1::CreateSetReply reply;
    EXPECT_TRUE(tenant.Call(&v1::Arbiter::Stub::CreateSet, request, &reply).ok());
    set_id = reply.set().id();
    v1::TenantMessage ask;
    ask.mutable_request_turn()->set_request_id(1);
    EXPECT_TRUE(attached->stream->Write(ask));
    v1::ArbiterMessage message;
    EXPECT_TRUE(attached->Await(MessageCase::kGrant, &message));
    token = message.grant().token();
  }
  grpc::Status Begin(uint64_t with_token) {
    v1::BeginWriteRequest request;
    request.set_request_id(tenant.NextRequestId());
    request.set_token(with_token);
    request.set_set_id(set_id);
    v1::BeginWriteReply reply;
    return tenant.Call(&v1::Arbiter::Stub::BeginWrite, request, &reply);
  }
  RawTenant tenant;
  std::unique_ptr<RawTenant::Attached> attached;
  uint64_t set_id = 0;
  uint64_t token = 0;
};

TEST_F(Protocol, TheDescriptorThatAReaderReceivesCanNotBeWritten) {
  auto trainer = cluster_.Tenant("trainer");
  ASSERT_THAT(trainer->Do("shared weights 2097152"), StartsWith("ok"));
  ASSERT_THAT(trainer->Do("set job weights m"), StartsWith("ok"));
  RawTenant reader(cluster_.run_dir(), "reader");
  v1::MapSegmentRequest request;
  request.set_segment_id(cluster_.State().sets(0).shared_segment_id());
  v1::MapSegmentReply reply;
  ASSERT_TRUE(reader.Call(&v1::Arbiter::Stub::MapSegment, request, &reply).ok());
  const int fd = reader.BlockFd(reply.first_block());
  ASSERT_GE(fd, 0);
  EXPECT_EQ(pwrite(fd, "x", 1, 0), -1);
  EXPECT_EQ(errno, EBADF);
  EXPECT_EQ(ftruncate(fd, 0), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  EXPECT_EQ(errno, EACCES);
  void* map = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(map, MAP_FAILED);
  EXPECT_EQ(mprotect(map, 4096, PROT_READ | PROT_WRITE), -1);
  EXPECT_EQ(errno, EACCES);
  munmap(map, 4096);
  struct stat info {};
  ASSERT_EQ(fstat(fd, &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600U);
  EXPECT_EQ(fcntl(fd, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
}

TEST_F(Protocol, AStaleTokenIsRefusedAndChangesNothing) {
  Writer writer(cluster_.run_dir());
  EXPECT_EQ(writer.Begin(writer.token + 1).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(writer.Begin(writer.token - 1).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  const v1::GetStateReply state = cluster_.State();
  EXPECT_EQ(state.sets(0).state(), v1::SET_STATE_EMPTY);
  EXPECT_EQ(state.token(), writer.token);
  EXPECT_TRUE(writer.Begin(writer.token).ok());
}

TEST_F(Protocol, ARepeatedVerbGetsTheFirstAnswer) {
  Writer writer(cluster_.run_dir());
  ASSERT_TRUE(writer.Begin(writer.token).ok());
  v1::CommitRequest request;
  request.set_request_id(writer.tenant.NextRequestId());
  request.set_token(writer.token);
  request.set_set_id(writer.set_id);
  v1::CommitReply first, second;
  ASSERT_TRUE(writer.tenant.Call(&v1::Arbiter::Stub::Commit, request, &first).ok());
  ASSERT_TRUE(writer.tenant.Call(&v1::Arbiter::Stub::Commit, request, &second).ok());
  EXPECT_EQ(second.version(), first.version());
  EXPECT_EQ(cluster_.State().sets(0).version(), first.version());
}

TEST_F(Protocol, AYieldInsideTheWriteWindowIsRefused) {
  Writer writer(cluster_.run_dir());
  ASSERT_TRUE(writer.Begin(writer.token).ok());
  v1::TenantMessage yield;
  yield.mutable_yield()->set_token(writer.token);
  ASSERT_TRUE(writer.attached->stream->Write(yield));
  v1::ArbiterMessage message;
  ASSERT_TRUE(writer.attached->Await(MessageCase::kYieldRefused, &message));
  EXPECT_THAT(message.yield_refused().reason(), HasSubstr("window"));
  EXPECT_EQ(cluster_.State().token(), writer.token);
}

TEST_F(Protocol, TheNewestStreamWinsAndBeginsWithTheWholeState) {
  Writer writer(cluster_.run_dir());
  auto newer = writer.tenant.Attach();
  v1::ArbiterMessage message;
  ASSERT_TRUE(newer->stream->Read(&message));
  ASSERT_EQ(message.message_case(), MessageCase::kState);
  EXPECT_EQ(message.state().held_token(), writer.token);
  EXPECT_EQ(message.state().last_answered_request_id(), 1U);
  EXPECT_EQ(message.state().segments_size(), 1);
  EXPECT_EQ(message.state().sets_size(), 1);
  while (writer.attached->stream->Read(&message)) {
  }
  EXPECT_EQ(cluster_.State().token(), writer.token);  // the older one ended, the turn did not
  v1::TenantMessage yield;
  yield.mutable_yield()->set_token(writer.token);
  ASSERT_TRUE(newer->stream->Write(yield));
  cluster_.AwaitState("the newer stream yields", [](const auto& state) { return state.token() == 0; });
}

TEST_F(Protocol, AnAcknowledgementOfAnUnmapIsCheckedAgainstTheProcessMaps) {
  auto trainer = cluster_.Tenant("trainer");
  ASSERT_THAT(trainer->Do("shared weights 2097152"), StartsWith("ok"));
  ASSERT_THAT(trainer->Do("set job weights m"), StartsWith("ok"));
  RawTenant reader(cluster_.run_dir(), "reader");
  auto attached = reader.Attach();
  v1::ArbiterMessage message;
  ASSERT_TRUE(attached->Await(MessageCase::kState, &message));
  v1::MapSegmentRequest request;
  request.set_segment_id(message.state().sets(0).shared_segment_id());
  v1::MapSegmentReply reply;
  ASSERT_TRUE(reader.Call(&v1::Arbiter::Stub::MapSegment, request, &reply).ok());
  void* map = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, reader.BlockFd(reply.first_block()), 0);
  ASSERT_NE(map, MAP_FAILED);
  ASSERT_EQ(trainer->Do("retire job"), "ok");
  ASSERT_TRUE(attached->Await(MessageCase::kUnmap, &message));
  v1::TenantMessage done;
  done.mutable_unmap_done()->set_segment_id(request.segment_id());
  ASSERT_TRUE(attached->stream->Write(done));  // not true
  const auto said_so = [&] { return cluster_.ArbiterLog().find("still maps 1 blocks") != std::string::npos; };
  cluster_.AwaitState("the lie is noticed", [&](const auto&) { return said_so(); });
  EXPECT_EQ(cluster_.State().pool().quarantined_bytes(), 2097152U);
  munmap(map, 4096);
  ASSERT_TRUE(attached->stream->Write(done));
  cluster_.AwaitState("the truth is believed", [](const auto& now) { return now.pool().quarantined_bytes() == 0; });
}

TEST_F(Protocol, WithoutALiveSessionNothingButGetStateIsAnswered) {
  const auto stub = v1::Arbiter::NewStub(
      grpc::CreateChannel("unix:" + cluster_.run_dir() + "/arbiter.sock", grpc::InsecureChannelCredentials()));
  for (const char* key : {"", "00000000000000000000000000000000"}) {
    grpc::ClientContext context;
    if (*key != '\0') context.AddMetadata("tandem-session", key);
    v1::CreateSegmentReply reply;
    EXPECT_EQ(stub->CreateSegment(&context, {}, &reply).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  }
  EXPECT_EQ(cluster_.State().pool().arena_bytes(), 67108864U);
}

TEST_F(Protocol, SocketsAreForTheGroupInADirectoryForTheGroup) {
  const std::pair<std::string, mode_t> paths[] = {{"", 0750}, {"/arbiter.sock", 0660}, {"/lifeline.sock", 0660}};
  for (const auto& [name, mode] : paths) {
    struct stat info {};
    ASSERT_EQ(stat((cluster_.run_dir() + name).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, mode) << name;
  }
}

}  // namespace
}  // namespace tandem::testing
