// tandem submit: sends a job file to the trainer.

#include <filesystem>
#include <iostream>

#include "common/base/file.h"
#include "services/client/commands.h"
#include "services/client/daemon_call.h"
#include "services/client/job_follower.h"

namespace tandem::client {
namespace {

struct SubmitOptions {
  std::string file;
  bool follow = false;
  std::string idempotency_key;
};

int Submit(const RunDir& run_dir, const SubmitOptions& options) {
  const auto yaml = ReadFile(options.file, size_t{1} << 20);
  if (!yaml.ok()) {
    std::cerr << "error: " << yaml.status().message()
              << "\nGive the path of a job file, such as deploy/examples/gsm8k.yaml\n";
    return kUsage;
  }
  const RequestFile file = {options.file, *yaml};
  v1::SubmitJobRequest request;
  request.set_yaml(*yaml);
  request.set_base_dir(std::filesystem::absolute(options.file).parent_path().string());
  request.set_idempotency_key(options.idempotency_key);
  grpc::ClientContext context;
  SetTimeout(context);
  v1::SubmitJobResponse response;
  const grpc::Status status = TrainerStub(run_dir)->SubmitJob(&context, request, &response);
  if (!status.ok()) return ReportError(status, "trainer", run_dir, &file);

  for (const std::string& warning : response.warnings()) std::cerr << "note: " << warning << "\n";
  const v1::Job& job = response.job();
  if (options.follow) {
    std::cerr << "job " << job.id() << " submitted, output in " << job.output_dir() << " (Ctrl-C detaches)\n";
    return JobFollower(run_dir, job).Run();
  }
  std::cout << job.id() << "\n";
  std::cerr << "job " << job.id() << " submitted. Follow it: tandem job follow " << job.id() << "\n";
  return kOk;
}

}  // namespace

void AddSubmitCommand(CLI::App& app, Cli& cli) {
  auto options = std::make_shared<SubmitOptions>();
  CLI::App* submit = app.add_subcommand("submit", "Submit a training job and print its id");
  submit->add_option("job.yaml", options->file, "The job file")->required();
  submit->add_flag("--follow,-f", options->follow, "Follow the job until it ends; Ctrl-C detaches, the job goes on");
  submit->add_option("--idempotency_key", options->idempotency_key, "Repeating it returns the first job");
  submit->callback([&cli, options] { cli.exit_code = Submit(cli.Dir(), *options); });
}

}  // namespace tandem::client
