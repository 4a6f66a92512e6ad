#pragma once
// The Inference service of proto/tandem/v1/inference.proto: decodes and checks requests, gives them to the engine, and
// writes what comes back. Called on gRPC's threads; each call waits on its own sink.

#include <string>

#include "common/base/clock.h"
#include "services/inference/engine.h"
#include "services/inference/inference_metrics.h"
#include "services/inference/request_check.h"
#include "tandem/v1/inference.grpc.pb.h"

namespace tandem::inference {

class InferenceService final : public v1::Inference::Service {
 public:
  // The engine and the metrics must outlive the service. `request_timeout`: longest wait for the first token of a
  // request that does not say.
  InferenceService(Engine& engine, const InferenceMetrics& metrics, absl::Duration request_timeout)
      : engine_(engine), metrics_(metrics), request_timeout_(request_timeout) {}

  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                        grpc::ServerWriter<v1::GenerateResponse>* writer) override;
  grpc::Status Rollout(grpc::ServerContext* context, const v1::RolloutRequest* request,
                       v1::RolloutResponse* response) override;
  grpc::Status LoadModel(grpc::ServerContext* context, const v1::LoadModelRequest* request,
                         v1::LoadModelResponse* response) override;
  grpc::Status ReleaseModel(grpc::ServerContext* context, const v1::ReleaseModelRequest* request,
                            v1::ReleaseModelResponse* response) override;
  grpc::Status GetInferenceState(grpc::ServerContext* context, const v1::GetInferenceStateRequest* request,
                                 v1::GetInferenceStateResponse* response) override;

 private:
  Engine& engine_;
  const InferenceMetrics& metrics_;
  absl::Duration request_timeout_;
};

}  // namespace tandem::inference
