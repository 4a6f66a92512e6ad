#include "arbiter/arbiter_service.h"

#include <algorithm>
#include <thread>

#include "absl/time/clock.h"
#include "arbiter/messages_service.h"
#include "common/base/status.h"
#include "common/rpc/status_mapping.h"

namespace tandem::arbiter {
namespace {

constexpr absl::Duration kLongestVerb = absl::Seconds(30);
constexpr absl::Duration kOutboxWait = absl::Seconds(1);

absl::StatusOr<Arbiter::TenantPtr> TenantOf(Arbiter& arbiter, const grpc::ServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto key = metadata.find("tandem-session");
  if (key == metadata.end()) return absl::UnauthenticatedError("metadata tandem-session is missing");
  return arbiter.Authenticate(std::string(key->second.data(), key->second.size()));
}

// When a verb must be answered: what the caller allows, at most kLongestVerb. Leaves a little for the answer's way.
absl::Time DeadlineOf(const grpc::ServerContext& context) {
  const absl::Time caller = absl::FromChrono(context.deadline()) - absl::Milliseconds(50);
  return std::min(caller, absl::Now() + kLongestVerb);
}

// Runs a verb once for each request_id: authenticates, answers a repetition from the session's log.
template <typename Request, typename Reply, typename Act>
grpc::Status Once(Arbiter& arbiter, const grpc::ServerContext& context, const Request& request, Reply* reply, Act act) {
  const absl::StatusOr<Arbiter::TenantPtr> tenant = TenantOf(arbiter, context);
  if (!tenant.ok()) return rpc::ToGrpc(tenant.status());
  const Answer answer = (*tenant)->answers.Once(request.request_id(), kLongestVerb, [&]() -> Answer {
    Reply made;
    const absl::Status status = act(**tenant, made);
    return {status, status.ok() ? made.SerializeAsString() : ""};
  });
  if (answer.status.ok()) reply->ParseFromString(answer.bytes);
  return rpc::ToGrpc(answer.status);
}

// Writes what the outbox holds until it closes or the stream breaks; then ends the stream's reads too.
void WriteEvents(grpc::ServerContext* context, grpc::ServerReaderWriter<v1::ArbiterMessage, v1::TenantMessage>* stream,
                 Outbox& outbox) {
  while (!outbox.closed()) {
    const std::optional<Event> event = outbox.Pop(kOutboxWait);
    if (event && !stream->Write(ToProto(*event))) break;
  }
  context->TryCancel();
}

}  // namespace

grpc::Status ArbiterService::Attach(grpc::ServerContext* context,
                                    grpc::ServerReaderWriter<v1::ArbiterMessage, v1::TenantMessage>* stream) {
  const absl::StatusOr<Arbiter::TenantPtr> tenant = TenantOf(arbiter_, *context);
  if (!tenant.ok()) return rpc::ToGrpc(tenant.status());
  const std::shared_ptr<Outbox> outbox = arbiter_.OpenStream(**tenant);
  std::thread writer([&] { WriteEvents(context, stream, *outbox); });
  v1::TenantMessage message;
  while (stream->Read(&message)) HandleMessage(**tenant, message);
  arbiter_.CloseStream(**tenant, outbox);
  writer.join();
  return grpc::Status::OK;
}

void ArbiterService::HandleMessage(TenantRecord& tenant, const v1::TenantMessage& message) {
  switch (message.message_case()) {
    case v1::TenantMessage::kHeartbeat:
      return arbiter_.Heartbeat(tenant, message.heartbeat().progress());
    case v1::TenantMessage::kRequestTurn:
      return arbiter_.RequestTurn(tenant, message.request_turn().request_id());
    case v1::TenantMessage::kWithdrawRequest:
      return arbiter_.WithdrawRequest(tenant, message.withdraw_request().request_id());
    case v1::TenantMessage::kYield: {
      const auto& keep = message.yield().keep_segment_ids();
      return arbiter_.Yield(tenant, message.yield().token(), {keep.begin(), keep.end()});
    }
    case v1::TenantMessage::kUnmapDone:
      return arbiter_.UnmapDone(tenant, message.unmap_done().segment_id());
    case v1::TenantMessage::kRemapDone:
      return arbiter_.RemapDone(tenant, message.remap_done().remap_id());
    case v1::TenantMessage::MESSAGE_NOT_SET:
      return;
  }
}

grpc::Status ArbiterService::CreateSegment(grpc::ServerContext* context, const v1::CreateSegmentRequest* request,
                                           v1::CreateSegmentReply* reply) {
  return Once(arbiter_, *context, *request, reply, [&](TenantRecord& tenant, auto& made) -> absl::Status {
    TANDEM_ASSIGN_OR_RETURN(const SegmentSpec spec, SpecFrom(*request));
    TANDEM_ASSIGN_OR_RETURN(const SegmentRecord segment, arbiter_.CreateSegment(tenant, spec, DeadlineOf(*context)));
    *made.mutable_segment() = ToProto(segment);
    return absl::OkStatus();
  });
}

grpc::Status ArbiterService::ReleaseSegment(grpc::ServerContext* context, const v1::ReleaseSegmentRequest* request,
                                            v1::ReleaseSegmentReply* reply) {
  return Once(arbiter_, *context, *request, reply,
              [&](TenantRecord& tenant, auto&) { return arbiter_.ReleaseSegment(tenant, request->segment_id()); });
}

grpc::Status ArbiterService::MapSegment(grpc::ServerContext* context, const v1::MapSegmentRequest* request,
                                        v1::MapSegmentReply* reply) {
  const absl::StatusOr<Arbiter::TenantPtr> tenant = TenantOf(arbiter_, *context);
  if (!tenant.ok()) return rpc::ToGrpc(tenant.status());
  // Needs no request_id: mapping again what is mapped sends nothing.
  const auto mapped = arbiter_.MapSegment(**tenant, request->segment_id(), DeadlineOf(*context));
  if (!mapped.ok()) return rpc::ToGrpc(mapped.status());
  *reply->mutable_segment() = ToProto(mapped->segment);
  reply->set_first_block(mapped->first_block);
  reply->set_blocks(mapped->blocks);
  return grpc::Status::OK;
}

grpc::Status ArbiterService::CreateSet(grpc::ServerContext* context, const v1::CreateSetRequest* request,
                                       v1::CreateSetReply* reply) {
  return Once(arbiter_, *context, *request, reply, [&](TenantRecord& tenant, auto& made) -> absl::Status {
    SetRecord set;
    set.name = request->name();
    set.shared_segment = request->shared_segment_id();
    set.private_segments.assign(request->private_segment_ids().begin(), request->private_segment_ids().end());
    set.manifest = request->manifest();
    TANDEM_ASSIGN_OR_RETURN(const SetRecord created, arbiter_.CreateSet(tenant, std::move(set)));
    *made.mutable_set() = ToProto(created);
    return absl::OkStatus();
  });
}

grpc::Status ArbiterService::RetireSet(grpc::ServerContext* context, const v1::RetireSetRequest* request,
                                       v1::RetireSetReply* reply) {
  return Once(arbiter_, *context, *request, reply,
              [&](TenantRecord& tenant, auto&) { return arbiter_.RetireSet(tenant, request->set_id()); });
}

grpc::Status ArbiterService::BeginWrite(grpc::ServerContext* context, const v1::BeginWriteRequest* request,
                                        v1::BeginWriteReply* reply) {
  return Once(arbiter_, *context, *request, reply, [&](TenantRecord& tenant, auto&) {
    return arbiter_.BeginWrite(tenant, request->token(), request->set_id());
  });
}

grpc::Status ArbiterService::Commit(grpc::ServerContext* context, const v1::CommitRequest* request,
                                    v1::CommitReply* reply) {
  return Once(arbiter_, *context, *request, reply, [&](TenantRecord& tenant, auto& made) -> absl::Status {
    TANDEM_ASSIGN_OR_RETURN(const uint64_t version,
                            arbiter_.Commit(tenant, request->token(), request->set_id(), request->note()));
    made.set_version(version);
    return absl::OkStatus();
  });
}

grpc::Status ArbiterService::GetState(grpc::ServerContext*, const v1::GetStateRequest*, v1::GetStateReply* reply) {
  *reply = ToProto(arbiter_.Report());
  reply->set_version(version_);
  return grpc::Status::OK;
}

}  // namespace tandem::arbiter
