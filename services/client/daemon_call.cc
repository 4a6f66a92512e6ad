#include "services/client/daemon_call.h"

#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_mapping.h"
#include "services/client/exit_code.h"
#include "services/jobs/yaml_lines.h"

namespace tandem::client {
namespace {

std::shared_ptr<grpc::Channel> ChannelTo(const RunDir& run_dir, const std::string& daemon) {
  return rpc::MakeChannel(rpc::DaemonTarget(run_dir.path(), daemon));
}

// UNAVAILABLE comes from a daemon that says so as well as from the lack of one.
bool Answers(const RunDir& run_dir, const std::string& daemon) {
  return rpc::WaitUntilServing(rpc::DaemonTarget(run_dir.path(), daemon), absl::Milliseconds(500)).ok();
}

}  // namespace

std::unique_ptr<v1::Arbiter::Stub> ArbiterStub(const RunDir& run_dir) {
  return v1::Arbiter::NewStub(ChannelTo(run_dir, "arbiter"));
}
std::unique_ptr<v1::Trainer::Stub> TrainerStub(const RunDir& run_dir) {
  return v1::Trainer::NewStub(ChannelTo(run_dir, "trainer"));
}
std::unique_ptr<v1::Inference::Stub> InferenceStub(const RunDir& run_dir) {
  return v1::Inference::NewStub(ChannelTo(run_dir, "inference"));
}

void SetTimeout(grpc::ClientContext& context, absl::Duration timeout) {
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
}

std::string DescribeViolations(const grpc::Status& status, const RequestFile& file) {
  std::string lines;
  for (const rpc::FieldViolation& violation : rpc::Violations(status)) {
    std::optional<jobs::YamlPlace> place;
    if (!violation.field.empty()) {
      place = jobs::LineOf(file.yaml, violation.field);
    } else if (const auto broken = jobs::FindYamlError(file.yaml)) {
      place = broken->place;
    }
    absl::StrAppend(&lines, file.path, ":");
    if (place.has_value()) absl::StrAppend(&lines, place->line, ":");
    if (!violation.field.empty()) absl::StrAppend(&lines, " ", violation.field, ":");
    absl::StrAppend(&lines, " ", violation.description, "\n");
  }
  return lines;
}

int ReportError(const grpc::Status& status, const std::string& daemon, const RunDir& run_dir, const RequestFile* file) {
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE && !Answers(run_dir, daemon)) {
    std::cerr << "error: " << daemon << " does not answer at " << run_dir.Socket(daemon) << ": "
              << status.error_message() << "\n"
              << "Start the daemons with: tandem up --run_dir " << run_dir.path() << "\n"
              << "If they should be running, see " << run_dir.Log(daemon) << "\n";
    return kUnreachable;
  }
  if (status.error_code() == grpc::StatusCode::INVALID_ARGUMENT) {
    const std::string lines = file == nullptr ? "" : DescribeViolations(status, *file);
    std::cerr << (lines.empty() ? absl::StrCat("error: ", status.error_message(), "\n") : lines);
    return kUsage;
  }
  std::cerr << "error: " << daemon << ": " << status.error_message() << "\n";
  return kFailed;
}

}  // namespace tandem::client
