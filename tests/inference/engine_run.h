#pragma once
// The whole inference service in this process, with a real arbiter process, and a trainer's session beside it.

#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/rpc/server.h"
#include "services/inference/engine.h"
#include "services/inference/inference_service.h"
#include "services/tenant/session.h"
#include "tandem/v1/inference.grpc.pb.h"
#include "tests/tenant/child_process.h"
#include "tests/testing/testing.h"
#include "tests/testing/tiny_model.h"

namespace tandem::testing {

// What a Generate call gave, by completion.
struct Generated {
  grpc::Status status;
  std::vector<std::vector<int>> tokens;
  std::vector<std::vector<float>> logprobs;
  std::vector<std::vector<uint64_t>> versions;
  std::vector<std::string> texts;
  std::vector<float> prompt_logprobs;
  uint64_t prompt_version = 0;
  bool operator==(const Generated& other) const { return tokens == other.tokens && logprobs == other.logprobs; }
};

// A trainer's set: weights of `dir` in the pool.
struct JobSet {
  tenant::Segment segment;
  tenant::SetView set;
};

class EngineRun {
 public:
  // With a pool of 64 MiB. A test that changes `options` calls StartEngine itself.
  EngineRun();
  ~EngineRun();
  void StartEngine(inference::EngineOptions options = {}, absl::Duration request_timeout = absl::Seconds(30));
  void RestartArbiter();

  v1::Inference::Stub& stub() { return *stub_; }
  // A model directory made by MakeTinyModel, by name.
  std::string Model(const std::string& name, const TinyModel& model = {});
  grpc::Status Load(const std::string& dir);
  Generated Generate(const v1::GenerateRequest& request);
  v1::GetInferenceStateResponse State();
  // Waits until the state satisfies the condition; fails the test after 20 s.
  v1::GetInferenceStateResponse AwaitState(const std::string& what,
                                           const std::function<bool(const v1::GetInferenceStateResponse&)>& condition);

  // ---- as the trainer
  tenant::Session& trainer();
  JobSet MakeJob(const std::string& name, const std::string& dir);
  // Loads the weights of `dir`, times `factor`, and commits; returns the version.
  uint64_t Commit(tenant::Turn& turn, const JobSet& job, const std::string& dir, float factor,
                  const std::string& note = "{}");
  tenant::Turn TakeTurn();

  const std::string& run_dir() const { return dir_.path(); }
  std::string ArbiterLog() const;

 private:
  void StartArbiter();

  TempDir dir_;
  std::unique_ptr<ChildProcess> arbiter_;
  std::unique_ptr<tenant::Session> trainer_;
  std::unique_ptr<Kernels> kernels_;
  SystemClock clock_;
  prometheus::Registry registry_;
  std::unique_ptr<inference::InferenceMetrics> metrics_;
  std::unique_ptr<inference::Engine> engine_;
  std::unique_ptr<inference::InferenceService> service_;
  std::unique_ptr<rpc::RpcServer> server_;
  std::unique_ptr<v1::Inference::Stub> stub_;
};

}  // namespace tandem::testing
