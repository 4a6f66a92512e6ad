// tandem-inference: serves text generation from the weights in the pool.

#include <prometheus/registry.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/rpc/metrics_endpoint.h"
#include "common/rpc/server.h"
#include "kernels/kernels.h"
#include "services/inference/engine.h"
#include "services/inference/inference_metrics.h"
#include "services/inference/inference_options.h"
#include "services/inference/inference_service.h"
#include "services/inference/model_load.h"

namespace tandem::inference {
namespace {

constexpr const char* kDaemon = "tandem-inference";
constexpr absl::Duration kDrainGrace = absl::Seconds(5);

void AddFlags(CLI::App& app, InferenceOptions& options) {
  app.add_option("--run_dir", options.run_dir, "Directory with arbiter.sock; inference.sock is made there")->required();
  app.add_option("--model", options.model, "Hugging Face directory to serve while no job runs");
  app.add_option("--kv_bytes", options.kv_bytes, "KV cache, such as 512MiB (default: a quarter of the pool)")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--max_batch", options.max_batch, "Most completions that decode in one step")->capture_default_str();
  app.add_option("--prefill_tokens", options.prefill_tokens, "Most prompt tokens in one step")->capture_default_str();
  app.add_option("--request_timeout_ms", options.request_timeout_ms, "Longest wait for a request's first token")
      ->capture_default_str();
  app.add_option("--max_queue", options.max_queue, "Most requests that wait")->capture_default_str();
  app.add_option("--threads", options.threads, "Threads of the kernels (0: one for each processor)")
      ->capture_default_str();
  app.add_option("--metrics_address", options.metrics_address, "Prometheus endpoint host:port, or off")
      ->capture_default_str();
  app.add_option("--tcp", options.tcp, "Also listen on host:port (no authentication; default: Unix socket only)");
  app.add_option("--log_level", options.log_level, "debug, info, warn or error")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->capture_default_str();
  app.set_version_flag("--version", TANDEM_VERSION);
}

// What can be refused before anything listens.
absl::Status CheckStart(const InferenceOptions& options) {
  if (absl::Status status = options.Validate(); !status.ok()) return status;
  if (absl::Status status = rpc::PrepareRunDir(options.run_dir); !status.ok()) return status;
  if (absl::Status status = rpc::LockFile(options.run_dir + "/inference.lock"); !status.ok()) return status;
  return options.model.empty() ? absl::OkStatus() : PrepareLoad(options.model).status();
}

int Serve(const InferenceOptions& options, rpc::SignalWaiter& signals) {
  if (const absl::Status status = CheckStart(options); !status.ok()) return rpc::BadStart(kDaemon, status);
  const std::unique_ptr<Kernels> kernels = MakeCpuKernels(static_cast<int>(options.threads));
  LOG_INFO("{} {} {}", TANDEM_VERSION, kernels->description(), options.ToString());
  auto registry = std::make_shared<prometheus::Registry>();
  rpc::AddBuildInfo(*registry, "inference");
  InferenceMetrics metrics(*registry);
  const SystemClock clock;
  auto endpoint = rpc::MetricsEndpoint::Start(options.metrics_address, registry);
  if (!endpoint.ok()) return rpc::BadStart(kDaemon, endpoint.status());
  auto engine = std::make_unique<Engine>(EngineOptions{.run_dir = options.run_dir,
                                                       .model = options.model,
                                                       .kv_bytes = options.kv_bytes,
                                                       .max_batch = static_cast<int>(options.max_batch),
                                                       .prefill_tokens = static_cast<int>(options.prefill_tokens),
                                                       .max_queue = static_cast<int>(options.max_queue)},
                                         *kernels, clock, metrics);
  InferenceService service(*engine, metrics, absl::Milliseconds(options.request_timeout_ms));
  auto server = rpc::RpcServer::Start(
      {.socket_path = options.run_dir + "/inference.sock", .tcp_address = options.tcp, .services = {&service}});
  if (!server.ok()) return rpc::BadStart(kDaemon, server.status());
  (*server)->SetServing(true);
  LOG_INFO("listening on {}/inference.sock, metrics port {}", options.run_dir, (*endpoint)->port());
  LOG_INFO("signal {}: draining", signals.Wait());
  (*server)->SetServing(false);
  (*server)->Drain(kDrainGrace);
  engine.reset();
  return 0;
}

int Main(int argc, char** argv) {
  rpc::SignalWaiter signals;
  InferenceOptions options;
  CLI::App app(
      "Serves text generation from the weights in the pool.\n"
      "Example: tandem-inference --run_dir=/run/tandem --model=./SmolLM2-135M-Instruct");
  AddFlags(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;  // --help and --version are no errors
  }
  InitLog("inference", options.log_level);
  return Serve(options, signals);
}

}  // namespace
}  // namespace tandem::inference

int main(int argc, char** argv) {
  return tandem::inference::Main(argc, argv);
}
