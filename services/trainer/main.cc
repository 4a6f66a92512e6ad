// tandem-trainer: runs training jobs on weights in the pool.

#include <prometheus/registry.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/rpc/channel.h"
#include "common/rpc/metrics_endpoint.h"
#include "common/rpc/server.h"
#include "kernels/kernels.h"
#include "services/jobs/job_runner.h"
#include "services/jobs/job_store.h"
#include "services/trainer/job_executor.h"
#include "services/trainer/pool_counters.h"
#include "services/trainer/rollouts.h"
#include "services/trainer/trainer_metrics.h"
#include "services/trainer/trainer_options.h"
#include "services/trainer/trainer_service.h"

namespace tandem::trainer {
namespace {

constexpr const char* kDaemon = "tandem-trainer";
constexpr int kBadStart = 2;
constexpr absl::Duration kDrainGrace = absl::Seconds(2);

void AddFlags(CLI::App& app, TrainerOptions& options) {
  app.add_option("--run_dir", options.run_dir, "Directory with arbiter.sock; trainer.sock is made there")->required();
  app.add_option("--state_dir", options.state_dir, "Directory of the job database (default: the run directory)");
  app.add_option("--threads", options.threads, "Threads of the kernels (0: one for each processor)")
      ->capture_default_str();
  app.add_option("--longest_unit_ms", options.longest_unit_ms, "Longest time that one pack may take")
      ->capture_default_str();
  app.add_option("--metrics_address", options.metrics_address, "Prometheus endpoint host:port, or off")
      ->capture_default_str();
  app.add_option("--tcp", options.tcp, "Also listen on host:port (no authentication; default: Unix socket only)");
  app.add_option("--log_level", options.log_level, "debug, info, warn or error")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->capture_default_str();
  app.set_version_flag("--version", TANDEM_VERSION);
}

absl::Status Serve(TrainerOptions options, rpc::SignalWaiter& signals) {
  TANDEM_RETURN_IF_ERROR(options.Resolve());
  TANDEM_RETURN_IF_ERROR(rpc::PrepareRunDir(options.run_dir));
  TANDEM_RETURN_IF_ERROR(rpc::LockFile(options.run_dir + "/trainer.lock"));
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<jobs::JobStore> store,
                          jobs::JobStore::Open(options.state_dir + "/jobs.sqlite"));
  const std::unique_ptr<Kernels> kernels = MakeCpuKernels(static_cast<int>(options.threads));
  LOG_INFO("{} {} {}", TANDEM_VERSION, kernels->description(), options.ToString());

  const auto registry = std::make_shared<prometheus::Registry>();
  rpc::AddBuildInfo(*registry, "trainer");
  TrainerMetrics metrics(registry);
  TANDEM_ASSIGN_OR_RETURN(const auto endpoint, rpc::MetricsEndpoint::Start(options.metrics_address, registry));

  const SystemClock clock;
  const std::unique_ptr<Rollouts> rollouts = MakeRolloutsClient(rpc::DaemonTarget(options.run_dir, "inference"));
  PoolCounters counters(rpc::DaemonTarget(options.run_dir, "arbiter"));
  tenant::SessionOptions session;
  session.run_dir = options.run_dir;
  session.tenant = "trainer";
  session.longest_unit = absl::Milliseconds(options.longest_unit_ms);
  JobExecutor executor({*kernels, *rollouts, *store, metrics, clock, [&counters] { return counters.BytesMoved(); }},
                       {.session = session});
  jobs::JobRunner runner(*store, executor);
  TrainerService service(*store, runner, [&executor] { return executor.arena_bytes(); });
  TANDEM_ASSIGN_OR_RETURN(
      const std::unique_ptr<rpc::RpcServer> server,
      rpc::RpcServer::Start(
          {.socket_path = options.run_dir + "/trainer.sock", .tcp_address = options.tcp, .services = {&service}}));
  runner.Start();
  server->SetServing(true);
  LOG_INFO("listening on {}/trainer.sock, metrics port {}", options.run_dir, endpoint->port());
  LOG_INFO("signal {}: stopping at the next pack; a running job is taken up again at the next start", signals.Wait());
  server->SetServing(false);
  service.Stop();
  runner.Stop();
  server->Drain(kDrainGrace);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  rpc::SignalWaiter signals;
  TrainerOptions options;
  CLI::App app(
      "Runs training jobs on weights in the pool.\n"
      "Example: tandem-trainer --run_dir=/run/tandem --state_dir=/var/lib/tandem");
  AddFlags(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kBadStart;
  }
  InitLog("trainer", options.log_level);
  const absl::Status served = Serve(options, signals);
  return served.ok() ? 0 : rpc::BadStart(kDaemon, served);
}

}  // namespace
}  // namespace tandem::trainer

int main(int argc, char** argv) {
  return tandem::trainer::Main(argc, argv);
}
