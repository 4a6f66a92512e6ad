#pragma once
// Calls of the CLI to the daemons: channels, deadlines, and what is printed when a call fails.

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "services/client/supervisor/run_dir.h"
#include "tandem/v1/arbiter.grpc.pb.h"
#include "tandem/v1/inference.grpc.pb.h"
#include "tandem/v1/trainer.grpc.pb.h"

namespace tandem::client {

std::unique_ptr<v1::Arbiter::Stub> ArbiterStub(const RunDir& run_dir);
std::unique_ptr<v1::Trainer::Stub> TrainerStub(const RunDir& run_dir);
std::unique_ptr<v1::Inference::Stub> InferenceStub(const RunDir& run_dir);

// Longest wait of a call that is answered at once.
inline constexpr absl::Duration kCallTimeout = absl::Seconds(20);
void SetTimeout(grpc::ClientContext& context, absl::Duration timeout = kCallTimeout);

// A file that a request was made of; field paths of an error are shown as places in it.
struct RequestFile {
  std::string path;
  std::string yaml;
};

// Prints to standard error what went wrong with a call to `daemon`, with the remedy, and returns the exit code:
// kUnreachable if the daemon does not answer, kUsage for an invalid request, else kFailed.
int ReportError(const grpc::Status& status, const std::string& daemon, const RunDir& run_dir,
                const RequestFile* file = nullptr);

// The lines for an invalid request: "FILE:LINE: FIELD: TEXT" for each violation.
std::string DescribeViolations(const grpc::Status& status, const RequestFile& file);

}  // namespace tandem::client
