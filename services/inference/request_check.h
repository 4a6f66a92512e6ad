#pragma once
// What a request may ask for: ranges of sampling values and lengths of prompts, as a list of everything that is wrong.
// Pure, any thread. No RPC types: the service copies fields in and errors out.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "services/checkpoint/model_config.h"
#include "services/inference/sampling_params.h"

namespace tandem::inference {

// A field's path in the request ("sampling.top_p", "prompts[3].ids") and what is wrong with it.
struct FieldError {
  std::string field;
  std::string description;
};

// Sampling fields as they came; unset ones are nullopt.
struct SamplingFields {
  std::optional<double> temperature = std::nullopt;
  std::optional<double> top_p = std::nullopt;
  std::optional<int> top_k = std::nullopt;
  std::optional<int> max_tokens = std::nullopt;
  std::optional<int> n = std::nullopt;
  std::optional<uint64_t> seed = std::nullopt;
  bool ignore_eos = false;
};

inline constexpr int kMaxCompletionsPerPrompt = 256;
inline constexpr int kDefaultMaxTokens = 16;

// Fields with defaults filled in. `defaults` (null: none) brings those of generation_config.json; `drawn_seed` stands
// in for an unset seed. What is out of range is added to `errors`.
SamplingParams CheckSampling(const SamplingFields& fields, const ModelConfig* defaults, uint64_t drawn_seed,
                             std::vector<FieldError>& errors);

// Ids within the vocabulary, prompt not empty, prompt and completion within the context. An unset max_tokens is cut to
// what the context leaves (`params.max_tokens` changes); a given one must fit.
void CheckPrompt(const std::string& field, absl::Span<const int> ids, const ModelConfig& config,
                 const SamplingFields& fields, SamplingParams& params, std::vector<FieldError>& errors);

}  // namespace tandem::inference
