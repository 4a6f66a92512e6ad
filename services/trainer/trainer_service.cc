#include "services/trainer/trainer_service.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/rpc/status_mapping.h"
#include "services/jobs/job_spec_parser.h"
#include "services/jobs/output_dir.h"
#include "services/trainer/job_inputs.h"
#include "services/trainer/job_messages_service.h"

namespace tandem::trainer {
namespace {

constexpr absl::Duration kWatchSlice = absl::Milliseconds(500);
constexpr int64_t kDefaultListLimit = 100;
constexpr size_t kMaxIdempotencyKey = 64;
constexpr size_t kMaxYamlBytes = 1 << 20;

grpc::Status InvalidFields(const std::vector<jobs::FieldError>& errors) {
  std::vector<rpc::FieldViolation> violations;
  violations.reserve(errors.size());
  for (const jobs::FieldError& error : errors) violations.push_back({error.path, error.description});
  return rpc::InvalidFields(violations);
}

absl::Status CheckRequest(const v1::SubmitJobRequest& request) {
  if (request.yaml().size() > kMaxYamlBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the job file has ", request.yaml().size(), " bytes; at most ", kMaxYamlBytes, " are read"));
  }
  if (request.base_dir().empty() || request.base_dir()[0] != '/') {
    return absl::InvalidArgumentError(
        absl::StrCat("base_dir \"", request.base_dir(), "\" must be an absolute path: the job file's folder"));
  }
  if (request.idempotency_key().size() > kMaxIdempotencyKey) {
    return absl::InvalidArgumentError(absl::StrCat("idempotency_key has ", request.idempotency_key().size(),
                                                   " characters; at most ", kMaxIdempotencyKey, " are allowed"));
  }
  return absl::OkStatus();
}

}  // namespace

TrainerService::TrainerService(jobs::JobStore& store, jobs::JobRunner& runner, std::function<uint64_t()> arena_bytes)
    : store_(store), runner_(runner), arena_bytes_(std::move(arena_bytes)) {}

grpc::Status TrainerService::SubmitJob(grpc::ServerContext* /*context*/, const v1::SubmitJobRequest* request,
                                       v1::SubmitJobResponse* response) {
  if (const absl::Status checked = CheckRequest(*request); !checked.ok()) return rpc::ToGrpc(checked);
  const absl::StatusOr<std::optional<jobs::JobRecord>> known = store_.FindByKey(request->idempotency_key());
  if (!known.ok()) return rpc::ToGrpc(known.status());
  if (known->has_value()) {
    ToProto(**known, *response->mutable_job());
    return grpc::Status::OK;
  }
  const jobs::ParsedJob parsed = jobs::ParseJobSpec(request->yaml(), request->base_dir());
  if (!parsed.ok()) return InvalidFields(parsed.errors);
  std::string field;
  const absl::StatusOr<SubmissionNotes> notes = CheckSubmission(parsed.spec, arena_bytes_(), field);
  if (absl::IsInvalidArgument(notes.status()) || absl::IsNotFound(notes.status())) {
    absl::string_view text = notes.status().message();
    absl::ConsumePrefix(&text, field + ": ");
    return rpc::InvalidFields({{field, std::string(text)}});
  }
  if (!notes.ok()) return rpc::ToGrpc(notes.status());
  const absl::StatusOr<jobs::JobRecord> job = Enqueue(parsed.spec, notes->max_steps, request->idempotency_key());
  if (!job.ok()) return rpc::ToGrpc(job.status());
  LOG_INFO("job {} ({}) submitted, output_dir={}", job->id, job->name, job->output_dir);
  ToProto(*job, *response->mutable_job());
  for (const std::string& warning : parsed.warnings) {
    response->add_warnings(warning);
    if (const absl::Status s = store_.RecordLog(job->id, {"warning", warning}); !s.ok()) return rpc::ToGrpc(s);
  }
  for (const std::string& info : notes->info) {
    response->add_warnings(info);
    if (const absl::Status s = store_.RecordLog(job->id, {"info", info}); !s.ok()) return rpc::ToGrpc(s);
  }
  return grpc::Status::OK;
}

// The directory first, so that the job finds its job.yaml there when it starts.
absl::StatusOr<jobs::JobRecord> TrainerService::Enqueue(const jobs::JobSpec& spec, int64_t max_steps,
                                                        const std::string& idempotency_key) {
  const std::string resolved = jobs::ResolvedYaml(spec);
  TANDEM_RETURN_IF_ERROR(jobs::ClaimOutputDir(spec.output_dir, resolved));
  absl::StatusOr<jobs::JobRecord> job = store_.Submit({.name = spec.name,
                                                       .task = jobs::Name(spec.task),
                                                       .output_dir = spec.output_dir,
                                                       .resolved_yaml = resolved,
                                                       .max_steps = max_steps,
                                                       .idempotency_key = idempotency_key});
  if (!job.ok()) jobs::ReleaseOutputDir(spec.output_dir);
  return job;
}

grpc::Status TrainerService::GetJob(grpc::ServerContext* /*context*/, const v1::GetJobRequest* request,
                                    v1::Job* response) {
  const absl::StatusOr<jobs::JobRecord> job = store_.Get(request->job_id());
  if (!job.ok()) return rpc::ToGrpc(job.status());
  ToProto(*job, *response);
  return grpc::Status::OK;
}

grpc::Status TrainerService::ListJobs(grpc::ServerContext* /*context*/, const v1::ListJobsRequest* request,
                                      v1::ListJobsResponse* response) {
  if (request->limit() < 0) return rpc::InvalidFields({{"limit", "must not be negative; 0 means 100"}});
  const absl::StatusOr<std::vector<jobs::JobRecord>> jobs =
      store_.List(request->limit() == 0 ? kDefaultListLimit : request->limit());
  if (!jobs.ok()) return rpc::ToGrpc(jobs.status());
  for (const jobs::JobRecord& job : *jobs) ToProto(job, *response->add_jobs());
  return grpc::Status::OK;
}

grpc::Status TrainerService::CancelJob(grpc::ServerContext* /*context*/, const v1::CancelJobRequest* request,
                                       v1::Job* response) {
  const absl::StatusOr<jobs::JobRecord> job = runner_.Cancel(request->job_id());
  if (!job.ok()) return rpc::ToGrpc(job.status());
  // One that never started has nothing in its directory but the claim.
  if (job->state == jobs::JobState::kCancelled && job->started_at == 0) jobs::ReleaseOutputDir(job->output_dir);
  ToProto(*job, *response);
  return grpc::Status::OK;
}

grpc::Status TrainerService::WatchJob(grpc::ServerContext* context, const v1::WatchJobRequest* request,
                                      grpc::ServerWriter<v1::JobEvent>* writer) {
  int64_t after = request->after();
  int64_t progress_counter = 0;
  while (!context->IsCancelled()) {
    // The state before the events: an end that is seen here has its event below.
    const absl::StatusOr<jobs::JobRecord> job = store_.Get(request->job_id());
    if (!job.ok()) return rpc::ToGrpc(job.status());
    const bool ended = jobs::HasEnded(job->state);
    const absl::StatusOr<jobs::JobNews> news =
        store_.WaitForNews(request->job_id(), after, progress_counter, ended ? absl::ZeroDuration() : kWatchSlice);
    if (!news.ok()) return rpc::ToGrpc(news.status());
    for (const jobs::JobEvent& event : news->events) {
      v1::JobEvent message;
      ToProto(event, message);
      if (!writer->Write(message)) return grpc::Status::OK;
      after = event.sequence;
    }
    progress_counter = news->progress_counter;
    if (news->progress.has_value() && !ended) {
      v1::JobEvent message;
      ToProto(*news->progress, message);
      if (!writer->Write(message)) return grpc::Status::OK;
    }
    if (ended && news->events.empty()) return grpc::Status::OK;
    if (stopping_) return {grpc::StatusCode::UNAVAILABLE, "the trainer is stopping; the job is taken up again later"};
  }
  return grpc::Status::OK;
}

}  // namespace tandem::trainer
