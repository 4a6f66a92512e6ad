#pragma once
// The gRPC edge of the arbiter: decode, one call into Arbiter, one status mapping. Errors and verbs are documented in
// proto/tandem/v1/arbiter.proto. Called from gRPC's threads.

#include <string>

#include "arbiter/arbiter.h"
#include "tandem/v1/arbiter.grpc.pb.h"

namespace tandem::arbiter {

class ArbiterService final : public v1::Arbiter::Service {
 public:
  ArbiterService(Arbiter& arbiter, std::string version) : arbiter_(arbiter), version_(std::move(version)) {}

  grpc::Status Attach(grpc::ServerContext* context,
                      grpc::ServerReaderWriter<v1::ArbiterMessage, v1::TenantMessage>* stream) override;
  grpc::Status CreateSegment(grpc::ServerContext* context, const v1::CreateSegmentRequest* request,
                             v1::CreateSegmentReply* reply) override;
  grpc::Status ReleaseSegment(grpc::ServerContext* context, const v1::ReleaseSegmentRequest* request,
                              v1::ReleaseSegmentReply* reply) override;
  grpc::Status MapSegment(grpc::ServerContext* context, const v1::MapSegmentRequest* request,
                          v1::MapSegmentReply* reply) override;
  grpc::Status CreateSet(grpc::ServerContext* context, const v1::CreateSetRequest* request,
                         v1::CreateSetReply* reply) override;
  grpc::Status RetireSet(grpc::ServerContext* context, const v1::RetireSetRequest* request,
                         v1::RetireSetReply* reply) override;
  grpc::Status BeginWrite(grpc::ServerContext* context, const v1::BeginWriteRequest* request,
                          v1::BeginWriteReply* reply) override;
  grpc::Status Commit(grpc::ServerContext* context, const v1::CommitRequest* request, v1::CommitReply* reply) override;
  grpc::Status GetState(grpc::ServerContext* context, const v1::GetStateRequest* request,
                        v1::GetStateReply* reply) override;

 private:
  void HandleMessage(TenantRecord& tenant, const v1::TenantMessage& message);

  Arbiter& arbiter_;
  const std::string version_;
};

}  // namespace tandem::arbiter
