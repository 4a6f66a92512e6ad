// tandem-arbiter: owns the pool, grants turns, numbers versions. A bad start is one line and exit code 2.

#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "arbiter/arbiter.h"
#include "arbiter/arbiter_options.h"
#include "arbiter/arbiter_service.h"
#include "arbiter/epoch_file.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/device/host_device.h"
#include "common/rpc/metrics_endpoint.h"
#include "common/rpc/server.h"

namespace tandem::arbiter {
namespace {

constexpr absl::Duration kDrainGrace = absl::Seconds(2);

void AddFlags(CLI::App& app, ArbiterOptions& options) {
  app.add_option("--run_dir", options.run_dir, "Directory of the sockets and the lock")->required();
  app.add_option("--pool_bytes", options.pool_bytes, "Size of the pool; 0: min(4 GiB, half of the available memory)")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--host_bytes", options.host_bytes, "Host memory for kept bytes; 0: as much as the pool")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--quantum_ms", options.quantum_ms, "A holder is revoked after this long if someone waits");
  app.add_option("--revoke_grace_ms", options.revoke_grace_ms,
                 "A revoked holder is killed after 2 x its longest unit + this");
  app.add_option("--stall_ms", options.stall_ms, "A holder without progress this long is revoked");
  app.add_option("--reattach_ms", options.reattach_ms, "How long a holder may be without stream or lifeline");
  app.add_option("--proof_ms", options.proof_ms, "A killed process that lives this long is reported as an error");
  app.add_option("--heartbeat_ms", options.heartbeat_ms, "Period of the tenants' heartbeats");
  app.add_option("--longest_unit_cap_ms", options.longest_unit_cap_ms, "Cap of what a tenant declares");
  app.add_flag("--allow-unkillable", options.allow_unkillable, "Let tenants in that the arbiter may not signal");
  app.add_flag_callback(
      "--pidfd-open", [&] { options.pidfd_source = lifeline::PidfdSource::kPidfdOpen; },
      "Take pidfds by pidfd_open and start time even where the kernel has SO_PEERPIDFD");
  app.add_option("--metrics_address", options.metrics_address, "HOST:PORT of /metrics, or off");
  app.add_option("--log_level", options.log_level, "debug, info, warn or error")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}));
}

// A descriptor for each block, one more for each block in a transfer, and the tenants' sockets.
void RaiseOpenFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

absl::Status Serve(ArbiterOptions options, rpc::SignalWaiter& signals) {
  TANDEM_RETURN_IF_ERROR(options.Validate());
  TANDEM_RETURN_IF_ERROR(rpc::PrepareRunDir(options.run_dir));
  TANDEM_RETURN_IF_ERROR(rpc::LockFile(options.run_dir + "/arbiter.lock"));
  TANDEM_ASSIGN_OR_RETURN(const uint32_t epoch, RaiseEpoch(options.run_dir + "/arbiter.epoch"));
  TANDEM_RETURN_IF_ERROR(options.Resolve());
  RaiseOpenFileLimit();
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<HostDevice> device, HostDevice::Create(options.pool_bytes));

  const auto registry = std::make_shared<prometheus::Registry>();
  rpc::AddBuildInfo(*registry, "arbiter");
  ArbiterMetrics metrics(registry);
  TANDEM_ASSIGN_OR_RETURN(const auto endpoint, rpc::MetricsEndpoint::Start(options.metrics_address, registry));
  const SystemClock clock;
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<Arbiter> arbiter,
                          Arbiter::Start(options, epoch, *device, clock, metrics));
  ArbiterService service(*arbiter, TANDEM_VERSION);
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<rpc::RpcServer> server,
                          rpc::RpcServer::Start({options.run_dir + "/arbiter.sock", /*tcp_address=*/"", {&service}}));
  server->SetServing(true);
  LOG_INFO("options {}", options.ToString());
  LOG_INFO(
      "serving in {}: pool {} bytes in {} blocks of {}, host memory for keeping {} bytes, epoch {}, metrics port {}",
      options.run_dir, device->arena_bytes(), device->blocks(), device->block_bytes(), options.host_bytes, epoch,
      endpoint->port());
  const int signal = signals.Wait();
  LOG_INFO("signal {}: shutting down", signal);
  arbiter->CloseStreams();
  server->Drain(kDrainGrace);
  return absl::OkStatus();
}

}  // namespace
}  // namespace tandem::arbiter

int main(int argc, char** argv) {
  tandem::rpc::SignalWaiter signals;
  tandem::arbiter::ArbiterOptions options;
  CLI::App app("Owner of the memory pool: grants turns and numbers the versions of weight sets.", "tandem-arbiter");
  app.set_version_flag("--version", TANDEM_VERSION);
  tandem::arbiter::AddFlags(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : 2;
  }
  tandem::InitLog("arbiter", options.log_level);
  const absl::Status served = tandem::arbiter::Serve(options, signals);
  return served.ok() ? 0 : tandem::rpc::BadStart("tandem-arbiter", served);
}
