#include "services/client/generation.h"

#include <atomic>
#include <thread>

#include "absl/time/clock.h"
#include "services/client/interrupt.h"

namespace tandem::client {
namespace {

constexpr absl::Duration kLongestGeneration = absl::Hours(1);

// Cancels the call when Ctrl-C comes: a signal does not end a blocking read of gRPC.
class CancelOnInterrupt {
 public:
  explicit CancelOnInterrupt(grpc::ClientContext& context)
      : watcher_([this, &context] {
          while (!done_) {
            if (interrupt_.Requested()) {
              context.TryCancel();
              return;
            }
            absl::SleepFor(absl::Milliseconds(20));
          }
        }) {}
  ~CancelOnInterrupt() {
    done_ = true;
    watcher_.join();
  }
  CancelOnInterrupt(const CancelOnInterrupt&) = delete;
  CancelOnInterrupt& operator=(const CancelOnInterrupt&) = delete;

 private:
  Interrupt interrupt_;
  std::atomic<bool> done_ = false;
  std::thread watcher_;
};

void Append(const v1::GenerateResponse& response, GeneratedText& completion) {
  completion.text += response.text();
  completion.token_ids.insert(completion.token_ids.end(), response.token_ids().begin(), response.token_ids().end());
  completion.logprobs.insert(completion.logprobs.end(), response.logprobs().begin(), response.logprobs().end());
  completion.versions.insert(completion.versions.end(), response.versions().begin(), response.versions().end());
  if (response.finish_reason() != v1::FINISH_REASON_UNSPECIFIED) completion.finish_reason = response.finish_reason();
}

}  // namespace

void AddSamplingOptions(CLI::App& command, SamplingOptions& options) {
  command.add_option("--model", options.model, "Refuse unless this model is served (default: whatever is served)");
  command.add_option("--temperature", options.temperature, "0: greedy (default: the model's, else 1)");
  command.add_option("--top_k", options.top_k, "Sample among the k most likely tokens; 0: all");
  command.add_option("--top_p", options.top_p, "Sample among the most likely tokens that reach this probability");
  command.add_option("--seed", options.seed, "The same seed gives the same tokens (default: drawn)");
  command.add_option("--max_tokens", options.max_tokens, "Most tokens of an answer")->capture_default_str();
}

void Fill(const SamplingOptions& options, v1::GenerateRequest& request) {
  request.set_model(options.model);
  v1::SamplingParams& sampling = *request.mutable_sampling();
  if (options.temperature.has_value()) sampling.set_temperature(*options.temperature);
  if (options.top_k.has_value()) sampling.set_top_k(*options.top_k);
  if (options.top_p.has_value()) sampling.set_top_p(*options.top_p);
  if (options.seed.has_value()) sampling.set_seed(*options.seed);
  sampling.set_max_tokens(options.max_tokens);
  sampling.set_n(options.n);
}

grpc::Status RunGeneration(v1::Inference::Stub& stub, const v1::GenerateRequest& request, Generation& generation,
                           const std::function<void(int index, const std::string& text)>& on_text) {
  generation = {};
  generation.completions.resize(std::max(1, request.sampling().n()));
  grpc::ClientContext context;
  SetTimeout(context, kLongestGeneration);
  const CancelOnInterrupt cancel(context);
  const auto reader = stub.Generate(&context, request);
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
    if (!response.model().empty()) generation.model = response.model();
    if (!response.prompt_token_ids().empty()) {
      generation.prompt_token_ids.assign(response.prompt_token_ids().begin(), response.prompt_token_ids().end());
      generation.prompt_logprobs.assign(response.prompt_logprobs().begin(), response.prompt_logprobs().end());
    }
    const size_t index = static_cast<size_t>(response.index());
    if (index >= generation.completions.size()) continue;
    Append(response, generation.completions[index]);
    if (!response.text().empty()) on_text(response.index(), response.text());
  }
  return reader->Finish();
}

}  // namespace tandem::client
