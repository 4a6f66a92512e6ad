// tandem jobs, tandem job show|follow|cancel.

#include <google/protobuf/util/json_util.h>

#include <iostream>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "services/client/commands.h"
#include "services/client/daemon_call.h"
#include "services/client/job_follower.h"
#include "services/client/output.h"

namespace tandem::client {
namespace {

struct JobOptions {
  int64_t id = 0;
  int32_t limit = 20;
  std::string output = "text";
};

std::string LocalTime(double seconds) {
  if (seconds <= 0) return "-";
  return absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::FromUnixMicros(static_cast<int64_t>(seconds * 1e6)),
                          absl::LocalTimeZone());
}

int ListJobs(const RunDir& run_dir, const JobOptions& options) {
  grpc::ClientContext context;
  SetTimeout(context);
  v1::ListJobsRequest request;
  request.set_limit(options.limit);
  v1::ListJobsResponse response;
  const grpc::Status status = TrainerStub(run_dir)->ListJobs(&context, request, &response);
  if (!status.ok()) return ReportError(status, "trainer", run_dir);
  if (options.output == "json") {
    std::cout << ToJson(response) << "\n";
    return kOk;
  }
  if (response.jobs().empty())
    std::cerr << "no jobs yet; submit one: tandem submit job.yaml\n";
  else
    std::cout << absl::StrFormat("%6s  %-5s %-10s %11s  %-19s  %s\n", "ID", "TASK", "STATE", "STEP", "SUBMITTED",
                                 "NAME");
  for (const v1::Job& job : response.jobs()) {
    std::cout << absl::StrFormat("%6d  %-5s %-10s %11s  %-19s  %s\n", job.id(), job.task(), JobStateName(job.state()),
                                 absl::StrCat(job.step(), "/", job.max_steps()), LocalTime(job.submitted_at()),
                                 job.name());
  }
  return kOk;
}

// Fetches the job with `id`, or prints why it can not: then the exit code is not kOk.
int FetchJob(const RunDir& run_dir, int64_t id, v1::Job* job) {
  grpc::ClientContext context;
  SetTimeout(context);
  v1::GetJobRequest request;
  request.set_job_id(id);
  const grpc::Status status = TrainerStub(run_dir)->GetJob(&context, request, job);
  return status.ok() ? kOk : ReportError(status, "trainer", run_dir);
}

int ShowJob(const RunDir& run_dir, const JobOptions& options) {
  v1::Job job;
  if (const int code = FetchJob(run_dir, options.id, &job); code != kOk) return code;
  if (options.output == "json") {
    std::cout << ToJson(job) << "\n";
    return kOk;
  }
  std::cout << JobSummaryText(job);
  std::cout << "  submitted   " << LocalTime(job.submitted_at()) << ", started " << LocalTime(job.started_at())
            << ", ended " << LocalTime(job.ended_at()) << "\n";
  if (!job.error().empty()) std::cout << "  error       " << job.error() << "\n";
  if (!job.metrics().empty()) std::cout << "last metrics\n";
  for (const auto& [name, value] : std::map<std::string, double>(job.metrics().begin(), job.metrics().end())) {
    std::cout << absl::StrFormat("  %-44s %.6g\n", name, value);
  }
  std::cout << "job file as it runs\n" << job.resolved_yaml();
  return kOk;
}

int FollowJob(const RunDir& run_dir, const JobOptions& options) {
  v1::Job job;
  if (const int code = FetchJob(run_dir, options.id, &job); code != kOk) return code;
  return JobFollower(run_dir, job).Run();
}

int CancelJob(const RunDir& run_dir, const JobOptions& options) {
  grpc::ClientContext context;
  SetTimeout(context);
  v1::CancelJobRequest request;
  request.set_job_id(options.id);
  v1::Job job;
  const grpc::Status status = TrainerStub(run_dir)->CancelJob(&context, request, &job);
  if (!status.ok()) return ReportError(status, "trainer", run_dir);
  std::cerr << "job " << job.id() << " is " << JobStateName(job.state()) << "\n";
  return kOk;
}

}  // namespace

void AddJobCommands(CLI::App& app, Cli& cli) {
  auto options = std::make_shared<JobOptions>();
  const auto add_output = [&](CLI::App* command) {
    command->add_option("--output,-o", options->output, "text or json")->check(CLI::IsMember({"text", "json"}));
  };
  CLI::App* jobs = app.add_subcommand("jobs", "List the jobs, newest first");
  jobs->add_option("--limit", options->limit, "At most so many")->check(CLI::Range(1, 10000));
  add_output(jobs);
  jobs->callback([&cli, options] { cli.exit_code = ListJobs(cli.Dir(), *options); });

  CLI::App* job = app.add_subcommand("job", "Show, follow or cancel one job");
  job->require_subcommand(1);
  const auto add = [&](const char* name, const char* what, int (*run)(const RunDir&, const JobOptions&)) {
    CLI::App* command = job->add_subcommand(name, what);
    command->add_option("id", options->id, "The job's number, see: tandem jobs")->required();
    command->callback([&cli, options, run] { cli.exit_code = run(cli.Dir(), *options); });
    return command;
  };
  add_output(add("show", "Print state, totals, last metrics and the job file as it runs", ShowJob));
  add("follow", "Follow the job until it ends; Ctrl-C detaches, the job goes on", FollowJob);
  add("cancel", "End the job at its next pack boundary", CancelJob);
}

}  // namespace tandem::client
