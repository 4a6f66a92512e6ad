// The gRPC client behind Rollouts: one call at a time, repeated while inference is away, given up when the job ends.

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_mapping.h"
#include "services/trainer/rollouts.h"
#include "tandem/v1/inference.grpc.pb.h"

namespace tandem::trainer {
namespace {

constexpr absl::Duration kCallTimeout = absl::Hours(1);
// How long inference may be away (it is restarted by its supervisor), or not yet see a version that was committed.
constexpr absl::Duration kAwayTimeout = absl::Minutes(5);
constexpr absl::Duration kOtherVersionTimeout = absl::Seconds(10);
constexpr absl::Duration kFirstBackoff = absl::Milliseconds(20);
constexpr absl::Duration kLongestBackoff = absl::Seconds(1);
constexpr absl::Duration kCheckPeriod = absl::Milliseconds(50);

v1::RolloutRequest ToProto(const RolloutRequest& request) {
  v1::RolloutRequest out;
  out.set_version(request.version);
  out.set_set_id(request.set_id);
  for (const absl::Span<const int> prompt : request.prompts) {
    out.add_prompts()->mutable_ids()->Add(prompt.begin(), prompt.end());
  }
  v1::SamplingParams& sampling = *out.mutable_sampling();
  sampling.set_temperature(request.temperature);
  sampling.set_top_p(request.top_p);
  sampling.set_top_k(request.top_k);
  sampling.set_seed(request.seed);
  sampling.set_max_tokens(request.max_completion_length);
  sampling.set_n(request.num_generations);
  out.mutable_stop_token_ids()->Add(request.stop_token_ids.begin(), request.stop_token_ids.end());
  return out;
}

absl::StatusOr<RolloutResult> FromProto(const v1::RolloutResponse& response, const RolloutRequest& request) {
  const size_t expected = request.prompts.size() * static_cast<size_t>(request.num_generations);
  if (static_cast<size_t>(response.completions_size()) != expected) {
    return absl::InternalError(
        absl::StrCat("inference returned ", response.completions_size(), " completions, not ", expected));
  }
  RolloutResult result;
  result.busy_seconds = response.busy_seconds();
  for (const v1::Completion& completion : response.completions()) {
    if (completion.version() != request.version) {
      return absl::FailedPreconditionError(absl::StrCat("a completion was sampled from version ", completion.version(),
                                                        ", asked for was ", request.version));
    }
    if (completion.token_ids_size() == 0 || completion.token_ids_size() != completion.logprobs_size()) {
      return absl::InternalError(absl::StrCat("inference returned a completion of ", completion.token_ids_size(),
                                              " tokens with ", completion.logprobs_size(), " log-probabilities"));
    }
    result.completions.push_back({{completion.token_ids().begin(), completion.token_ids().end()},
                                  {completion.logprobs().begin(), completion.logprobs().end()}});
  }
  return result;
}

class RolloutsClient final : public Rollouts {
 public:
  explicit RolloutsClient(const std::string& target) : stub_(v1::Inference::NewStub(rpc::MakeChannel(target))) {}

  absl::StatusOr<RolloutResult> Sample(const RolloutRequest& request,
                                       const std::function<absl::Status()>& check) override {
    const v1::RolloutRequest proto = ToProto(request);
    const absl::Time start = absl::Now();
    absl::Duration backoff = kFirstBackoff;
    while (true) {
      TANDEM_RETURN_IF_ERROR(check());
      v1::RolloutResponse response;
      const absl::Time call_start = absl::Now();
      const absl::Status status = CallOnce(proto, response, check);
      if (status.ok()) return FromProto(response, request);
      // A call that ran for long and was cut off starts the patience anew.
      const absl::Time since = call_start - start > kAwayTimeout ? call_start : start;
      if (!WorthRepeating(status, absl::Now() - since)) return status;
      LOG_WARN("rollout: {}; asking again in {}", status.ToString(), absl::FormatDuration(backoff));
      TANDEM_RETURN_IF_ERROR(Pause(backoff, check));
      backoff = std::min(backoff * 2, kLongestBackoff);
    }
  }

  absl::Status ReleaseModel() override {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(10)));
    v1::ReleaseModelResponse response;
    return rpc::FromGrpc(stub_->ReleaseModel(&context, v1::ReleaseModelRequest(), &response));
  }

 private:
  static bool WorthRepeating(const absl::Status& status, absl::Duration waited) {
    switch (status.code()) {
      case absl::StatusCode::kUnavailable:
      case absl::StatusCode::kResourceExhausted:  // its queue is full
      case absl::StatusCode::kDeadlineExceeded:   // the request waited too long for the turn
        return waited < kAwayTimeout;
      case absl::StatusCode::kFailedPrecondition:  // it does not know the version yet
      case absl::StatusCode::kNotFound:
        return waited < kOtherVersionTimeout;
      default:
        return false;
    }
  }

  static absl::Status Pause(absl::Duration duration, const std::function<absl::Status()>& check) {
    for (absl::Duration left = duration; left > absl::ZeroDuration(); left -= kCheckPeriod) {
      TANDEM_RETURN_IF_ERROR(check());
      absl::SleepFor(std::min(left, kCheckPeriod));
    }
    return absl::OkStatus();
  }

  absl::Status CallOnce(const v1::RolloutRequest& request, v1::RolloutResponse& response,
                        const std::function<absl::Status()>& check) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
    grpc::CompletionQueue queue;
    grpc::Status status;
    const auto call = stub_->AsyncRollout(&context, request, &queue);
    call->Finish(&response, &status, nullptr);
    absl::Status stop;
    void* tag = nullptr;
    bool ok = false;
    while (queue.AsyncNext(&tag, &ok, absl::ToChronoTime(absl::Now() + kCheckPeriod)) ==
           grpc::CompletionQueue::TIMEOUT) {
      if (!stop.ok()) continue;
      stop = check();
      if (!stop.ok()) context.TryCancel();
    }
    queue.Shutdown();
    if (!stop.ok()) return stop;
    absl::Status result = rpc::FromGrpc(status);
    // A call that the other side gave up, because it stops or the turn was lost, is worth another try.
    if (!absl::IsCancelled(result) && !absl::IsAborted(result)) return result;
    return absl::UnavailableError(absl::StrCat("inference gave the call up: ", result.message()));
  }

  const std::unique_ptr<v1::Inference::Stub> stub_;
};

}  // namespace

std::unique_ptr<Rollouts> MakeRolloutsClient(const std::string& target) {
  return std::make_unique<RolloutsClient>(target);
}

}  // namespace tandem::trainer
