#include "common/rpc/channel.h"

#include <grpcpp/create_channel.h>

#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace tandem::rpc {

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& target) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(256 << 20);
  arguments.SetMaxSendMessageSize(256 << 20);
  return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments);
}

std::string DaemonTarget(const std::string& run_dir, const std::string& daemon) {
  return absl::StrCat("unix:", run_dir, "/", daemon, ".sock");
}

absl::Status WaitUntilServing(const std::string& target, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  const auto stub = grpc::health::v1::Health::NewStub(MakeChannel(target));
  grpc::Status last;
  do {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(std::min(deadline, absl::Now() + absl::Seconds(2))));
    // A call that fails at once polls no sockets: the handshake would go on only every 5 s (gRPC's backup poller).
    context.set_wait_for_ready(true);
    grpc::health::v1::HealthCheckResponse response;
    last = stub->Check(&context, {}, &response);
    if (last.ok() && response.status() == grpc::health::v1::HealthCheckResponse::SERVING) return absl::OkStatus();
    absl::SleepFor(std::min(absl::Milliseconds(20), deadline - absl::Now()));
  } while (absl::Now() < deadline);
  return absl::UnavailableError(
      absl::StrCat(target, " does not serve: ", last.ok() ? "not ready" : last.error_message()));
}

}  // namespace tandem::rpc
