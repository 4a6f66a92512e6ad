#include "tests/tenant/raw_tenant.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <variant>

#include "absl/time/clock.h"
#include "common/base/status.h"
#include "common/lifeline/lifeline_socket.h"
#include "common/lifeline/peer.h"
#include "common/rpc/channel.h"

namespace tandem::testing {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(10);

}  // namespace

RawTenant::RawTenant(const std::string& run_dir, const std::string& name) {
  socket_ = lifeline::Connect(run_dir + "/lifeline.sock", kPatience).value();
  lifeline::Hello hello;
  hello.tenant = name;
  hello.longest_unit_ms = 100;
  hello.start_time_ticks = lifeline::StartTimeTicks(0).value();
  EXPECT_TRUE(lifeline::Send(socket_.get(), hello, {}, kPatience).ok());
  const absl::StatusOr<lifeline::Received> answer = lifeline::Receive(socket_.get(), kPatience);
  TANDEM_CHECK(answer.ok(), answer.status().ToString());
  key_ = std::get<lifeline::Welcome>(answer->message).session_key;
  stub_ = v1::Arbiter::NewStub(rpc::MakeChannel(rpc::DaemonTarget(run_dir, "arbiter")));
  thread_ = std::thread([this] { Run(); });
}

RawTenant::~RawTenant() {
  lifeline::Send(socket_.get(), lifeline::Goodbye{}, {}, kPatience).IgnoreError();
  shutdown(socket_.get(), SHUT_RDWR);
  thread_.join();
}

void RawTenant::Run() {
  while (true) {
    absl::StatusOr<lifeline::Received> received = lifeline::Receive(socket_.get(), absl::Minutes(1));
    if (!received.ok()) return;
    const auto& blocks = std::get<lifeline::Blocks>(received->message);
    MutexLock lock(mutex_);
    for (size_t i = 0; i < blocks.blocks.size(); ++i) fds_[blocks.blocks[i]] = std::move(received->fds[i]);
    lifeline::BlocksAck ack;
    ack.batch = blocks.batch;
    lifeline::Send(socket_.get(), ack, {}, kPatience).IgnoreError();
  }
}

void RawTenant::Prepare(grpc::ClientContext& context) const {
  context.AddMetadata("tandem-session", key_);
  context.set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
}

std::unique_ptr<RawTenant::Attached> RawTenant::Attach() {
  auto attached = std::make_unique<Attached>();
  Prepare(attached->context);
  attached->stream = stub_->Attach(&attached->context);
  return attached;
}

bool RawTenant::Attached::Await(v1::ArbiterMessage::MessageCase wanted, v1::ArbiterMessage* message) {
  while (stream->Read(message)) {
    if (message->message_case() == wanted) return true;
  }
  return false;
}

uint64_t RawTenant::CreateShared(const std::string& name, uint64_t bytes) {
  v1::CreateSegmentRequest request;
  request.set_request_id(NextRequestId());
  request.set_name(name);
  request.set_kind(v1::SEGMENT_KIND_SHARED);
  request.set_size_bytes(bytes);
  v1::CreateSegmentReply reply;
  const grpc::Status status = Call(&v1::Arbiter::Stub::CreateSegment, request, &reply);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return reply.segment().id();
}

int RawTenant::BlockFd(uint32_t block) {
  MutexLock lock(mutex_);
  const auto found = fds_.find(block);
  return found == fds_.end() ? -1 : found->second.get();
}

}  // namespace tandem::testing
