#pragma once
// The trainer's gRPC service (proto/tandem/v1/trainer.proto): decodes, calls the store, the checks or the runner, and
// answers.

#include <atomic>
#include <functional>
#include <string>

#include "services/jobs/job_runner.h"
#include "services/jobs/job_spec.h"
#include "services/jobs/job_store.h"
#include "tandem/v1/trainer.grpc.pb.h"

namespace tandem::trainer {

class TrainerService final : public v1::Trainer::Service {
 public:
  // `arena_bytes`: 0 while it is not known. References must outlive the service.
  TrainerService(jobs::JobStore& store, jobs::JobRunner& runner, std::function<uint64_t()> arena_bytes);

  // Ends the streams of WatchJob, now and later.
  void Stop() { stopping_ = true; }

  grpc::Status SubmitJob(grpc::ServerContext* context, const v1::SubmitJobRequest* request,
                         v1::SubmitJobResponse* response) override;
  grpc::Status GetJob(grpc::ServerContext* context, const v1::GetJobRequest* request, v1::Job* response) override;
  grpc::Status ListJobs(grpc::ServerContext* context, const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override;
  grpc::Status CancelJob(grpc::ServerContext* context, const v1::CancelJobRequest* request, v1::Job* response) override;
  grpc::Status WatchJob(grpc::ServerContext* context, const v1::WatchJobRequest* request,
                        grpc::ServerWriter<v1::JobEvent>* writer) override;

 private:
  absl::StatusOr<jobs::JobRecord> Enqueue(const jobs::JobSpec& spec, int64_t max_steps,
                                          const std::string& idempotency_key);

  jobs::JobStore& store_;
  jobs::JobRunner& runner_;
  const std::function<uint64_t()> arena_bytes_;
  std::atomic<bool> stopping_ = false;
};

}  // namespace tandem::trainer
