// The gRPC client behind PoolCounters.

#include <grpcpp/grpcpp.h>

#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/rpc/channel.h"
#include "services/trainer/pool_counters.h"
#include "tandem/v1/arbiter.grpc.pb.h"

namespace tandem::trainer {

struct PoolCounters::Client {
  std::unique_ptr<v1::Arbiter::Stub> stub;
};

PoolCounters::PoolCounters(const std::string& target)
    : client_(std::make_unique<Client>(Client{v1::Arbiter::NewStub(rpc::MakeChannel(target))})) {}

PoolCounters::~PoolCounters() = default;

uint64_t PoolCounters::BytesMoved() {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(1)));
  v1::GetStateReply reply;
  if (client_->stub->GetState(&context, v1::GetStateRequest(), &reply).ok()) {
    last_ = reply.pool().evicted_bytes_total() + reply.pool().restored_bytes_total();
  }
  return last_;
}

}  // namespace tandem::trainer
