#include "tests/inference/engine_run.h"

#include <gtest/gtest.h>

#include "absl/time/clock.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/rpc/channel.h"
#include "services/checkpoint/checkpoint.h"

namespace tandem::testing {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(20);
constexpr absl::Duration kPoll = absl::Milliseconds(5);

}  // namespace

EngineRun::EngineRun() : kernels_(MakeCpuKernels(2)) {
  metrics_ = std::make_unique<inference::InferenceMetrics>(registry_);
  StartArbiter();
}

EngineRun::~EngineRun() {
  // First the arbiter: it would take this process, which lives on after the trainer's session, for a tenant that hangs.
  arbiter_->Signal(9);
  arbiter_->Wait();
  trainer_.reset();
  if (server_ != nullptr) server_->Drain(absl::ZeroDuration());
  engine_.reset();
  if (!::testing::Test::HasFailure()) return;
  std::fprintf(stderr, "---- arbiter log\n%s----\n", ArbiterLog().c_str());
}

std::string EngineRun::ArbiterLog() const {
  return ReadFile(dir_.File("arbiter.log")).value_or("");
}

void EngineRun::StartArbiter() {
  arbiter_ = std::make_unique<ChildProcess>(
      std::vector<std::string>{TANDEM_ARBITER, "--run_dir", run_dir(), "--metrics_address", "off", "--pool_bytes",
                               "67108864", "--quantum_ms", "1"},
      dir_.File("arbiter.log"));
  const absl::Status serving = rpc::WaitUntilServing(rpc::DaemonTarget(run_dir(), "arbiter"), kPatience);
  TANDEM_CHECK(serving.ok(), serving.ToString(), ArbiterLog());
}

void EngineRun::RestartArbiter() {
  arbiter_->Signal(9);
  arbiter_->Wait();
  trainer_.reset();
  StartArbiter();
}

void EngineRun::StartEngine(inference::EngineOptions options, absl::Duration request_timeout) {
  options.run_dir = run_dir();
  engine_ = std::make_unique<inference::Engine>(options, *kernels_, clock_, *metrics_);
  service_ = std::make_unique<inference::InferenceService>(*engine_, *metrics_, request_timeout);
  auto server = rpc::RpcServer::Start(
      {.socket_path = run_dir() + "/inference.sock", .tcp_address = "", .services = {service_.get()}});
  TANDEM_CHECK(server.ok(), server.status().ToString());
  server_ = *std::move(server);
  stub_ = v1::Inference::NewStub(rpc::MakeChannel(rpc::DaemonTarget(run_dir(), "inference")));
}

std::string EngineRun::Model(const std::string& name, const TinyModel& model) {
  std::string dir = dir_.File(name);
  MakeTinyModel(dir, model);
  return dir;
}

grpc::Status EngineRun::Load(const std::string& dir) {
  grpc::ClientContext context;
  v1::LoadModelRequest request;
  v1::LoadModelResponse response;
  request.set_path(dir);
  return stub_->LoadModel(&context, request, &response);
}

Generated EngineRun::Generate(const v1::GenerateRequest& request) {
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, request);
  Generated generated;
  v1::GenerateResponse message;
  while (reader->Read(&message)) {
    const auto index = static_cast<size_t>(message.index());
    if (generated.tokens.size() <= index) {
      generated.tokens.resize(index + 1);
      generated.logprobs.resize(index + 1);
      generated.versions.resize(index + 1);
      generated.texts.resize(index + 1);
    }
    for (const int token : message.token_ids()) generated.tokens[index].push_back(token);
    for (const float logprob : message.logprobs()) generated.logprobs[index].push_back(logprob);
    for (const uint64_t version : message.versions()) generated.versions[index].push_back(version);
    generated.texts[index] += message.text();
    if (message.prompt_token_ids_size() == 0) continue;
    generated.prompt_logprobs.assign(message.prompt_logprobs().begin(), message.prompt_logprobs().end());
    generated.prompt_version = message.prompt_version();
  }
  generated.status = reader->Finish();
  return generated;
}

v1::GetInferenceStateResponse EngineRun::State() {
  grpc::ClientContext context;
  v1::GetInferenceStateResponse state;
  EXPECT_TRUE(stub_->GetInferenceState(&context, v1::GetInferenceStateRequest(), &state).ok());
  return state;
}

v1::GetInferenceStateResponse EngineRun::AwaitState(
    const std::string& what, const std::function<bool(const v1::GetInferenceStateResponse&)>& condition) {
  const absl::Time deadline = absl::Now() + kPatience;
  v1::GetInferenceStateResponse state = State();
  while (!condition(state) && absl::Now() < deadline) {
    absl::SleepFor(kPoll);
    state = State();
  }
  EXPECT_TRUE(condition(state)) << what << " does not come: " << state.ShortDebugString();
  return state;
}

tenant::Session& EngineRun::trainer() {
  if (trainer_ == nullptr) {
    tenant::SessionOptions options;
    options.run_dir = run_dir();
    options.tenant = "trainer";
    options.longest_unit = absl::Seconds(10);
    auto session = tenant::Session::Connect(std::move(options));
    TANDEM_CHECK(session.ok(), session.status().ToString());
    trainer_ = *std::move(session);
  }
  return *trainer_;
}

JobSet EngineRun::MakeJob(const std::string& name, const std::string& dir) {
  const auto config = LoadModelConfig(dir);
  TANDEM_CHECK(config.ok(), config.status().ToString());
  const WeightManifest manifest = MakeWeightManifest(*config);
  const auto segment = trainer().CreateShared("weights of " + name, manifest.bytes());
  TANDEM_CHECK(segment.ok(), segment.status().ToString());
  const auto set = trainer().CreateSet(
      name, *segment, {},
      ServedModelToJson({.name = name, .model_dir = dir, .config = *config, .layout_hash = manifest.layout_hash}));
  TANDEM_CHECK(set.ok(), set.status().ToString());
  return {*segment, *set};
}

tenant::Turn EngineRun::TakeTurn() {
  auto turn = trainer().RequestTurn(kPatience);
  TANDEM_CHECK(turn.ok(), turn.status().ToString());
  return *std::move(turn);
}

uint64_t EngineRun::Commit(tenant::Turn& turn, const JobSet& job, const std::string& dir, float factor,
                           const std::string& note) {
  const auto config = LoadModelConfig(dir);
  const WeightManifest manifest = MakeWeightManifest(*config);
  TANDEM_CHECK(turn.BeginWrite(job.set.id).ok());
  const absl::Span<float> weights(reinterpret_cast<float*>(job.segment.data), manifest.total_elements);
  const absl::Status loaded = LoadWeights(dir, *config, manifest, weights);
  TANDEM_CHECK(loaded.ok(), loaded.ToString());
  for (float& weight : weights) weight *= factor;
  const auto version = turn.Commit(job.set.id, note);
  TANDEM_CHECK(version.ok(), version.status().ToString());
  return *version;
}

}  // namespace tandem::testing
