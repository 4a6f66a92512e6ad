#pragma once
// One Generate call of the CLI: options of sampling, streaming to the terminal, Ctrl-C aborts. Used by generate and
// chat.

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "services/client/daemon_call.h"

namespace tandem::client {

// Sampling options of the command line; what is not given is left to the service and the model's
// generation_config.json.
struct SamplingOptions {
  std::string model;
  std::optional<double> temperature;
  std::optional<int> top_k;
  std::optional<double> top_p;
  std::optional<uint64_t> seed;
  int max_tokens = 256;
  int n = 1;
};

void AddSamplingOptions(CLI::App& command, SamplingOptions& options);
void Fill(const SamplingOptions& options, v1::GenerateRequest& request);

// A completion as it has come so far.
struct GeneratedText {
  std::string text;
  std::vector<int> token_ids;
  std::vector<float> logprobs;
  std::vector<uint64_t> versions;
  v1::FinishReason finish_reason = v1::FINISH_REASON_UNSPECIFIED;
};

struct Generation {
  std::string model;
  std::vector<int> prompt_token_ids;
  std::vector<float> prompt_logprobs;
  std::vector<GeneratedText> completions;  // n of them
};

// Runs the request; `on_text` sees each piece of text of completion `index` as it comes. Ctrl-C cancels the call: the
// status is CANCELLED and `generation` holds what came until then.
grpc::Status RunGeneration(v1::Inference::Stub& stub, const v1::GenerateRequest& request, Generation& generation,
                           const std::function<void(int index, const std::string& text)>& on_text);

}  // namespace tandem::client
