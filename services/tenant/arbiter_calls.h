#pragma once
// Unary calls to the arbiter: session key and deadline on each, and the same request again (same request_id, so it is
// done once) while the connection is broken but the arbiter lives. Thread-safe.

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/rpc/status_mapping.h"
#include "tandem/v1/arbiter.grpc.pb.h"

namespace tandem::tenant {

class ArbiterCalls {
 public:
  ArbiterCalls(std::shared_ptr<grpc::Channel> channel, std::string session_key, absl::Duration timeout,
               const std::atomic<bool>& arbiter_gone)
      : stub_(v1::Arbiter::NewStub(std::move(channel))),
        session_key_(std::move(session_key)),
        timeout_(timeout),
        arbiter_gone_(arbiter_gone) {}

  v1::Arbiter::Stub& stub() { return *stub_; }
  uint64_t NextRequestId() { return ++last_request_id_; }

  // Calls stub.`method`(request) into `reply`.
  template <typename Request, typename Reply>
  absl::Status Call(grpc::Status (v1::Arbiter::Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                    const Request& request, Reply* reply) {
    const absl::Time deadline = absl::Now() + timeout_;
    while (true) {
      if (arbiter_gone_) return absl::UnavailableError("the arbiter is gone, and with it the pool; connect again");
      grpc::ClientContext context;
      context.set_deadline(absl::ToChronoTime(deadline));
      context.AddMetadata("tandem-session", session_key_);
      const grpc::Status status = (stub_.get()->*method)(&context, request, reply);
      const bool again = status.error_code() == grpc::StatusCode::UNAVAILABLE && absl::Now() + kRetry < deadline;
      if (!again) return rpc::FromGrpc(status);
      absl::SleepFor(kRetry);
    }
  }

 private:
  static constexpr absl::Duration kRetry = absl::Milliseconds(20);

  const std::unique_ptr<v1::Arbiter::Stub> stub_;
  const std::string session_key_;
  const absl::Duration timeout_;
  const std::atomic<bool>& arbiter_gone_;
  std::atomic<uint64_t> last_request_id_{0};
};

}  // namespace tandem::tenant
