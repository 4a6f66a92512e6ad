#include "services/inference/request_check.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace tandem::inference {

SamplingParams CheckSampling(const SamplingFields& fields, const ModelConfig* defaults, uint64_t drawn_seed,
                             std::vector<FieldError>& errors) {
  SamplingParams params;
  double temperature = fields.temperature.value_or(1.0);
  params.top_k = fields.top_k.value_or(0);
  params.top_p = fields.top_p.value_or(1.0);
  if (defaults != nullptr) {
    if (!fields.temperature) temperature = defaults->default_temperature.value_or(temperature);
    if (!fields.top_k) params.top_k = defaults->default_top_k.value_or(params.top_k);
    if (!fields.top_p) params.top_p = defaults->default_top_p.value_or(params.top_p);
  }
  params.temperature = static_cast<float>(temperature);
  params.max_tokens = fields.max_tokens.value_or(kDefaultMaxTokens);
  params.n = fields.n.value_or(1);
  params.seed = fields.seed.value_or(drawn_seed);
  params.ignore_eos = fields.ignore_eos;
  if (!(temperature >= 0.0) || !std::isfinite(params.temperature)) {
    errors.push_back({"sampling.temperature", absl::StrCat(temperature, " is not a finite number of at least 0")});
  } else if (temperature > 0.0 && !std::isnormal(params.temperature)) {
    errors.push_back({"sampling.temperature", absl::StrCat(temperature, " is too small to divide by; 0 is greedy")});
  }
  if (!(params.top_p > 0.0 && params.top_p <= 1.0)) {
    errors.push_back({"sampling.top_p", absl::StrCat(params.top_p, " is not in (0, 1]")});
  }
  if (params.top_k < -1) {
    errors.push_back({"sampling.top_k", absl::StrCat(params.top_k, " is below -1 (0 and -1 keep all tokens)")});
  }
  if (params.max_tokens < 1) {
    errors.push_back({"sampling.max_tokens", absl::StrCat(params.max_tokens, " is not at least 1")});
  }
  if (params.n < 1 || params.n > kMaxCompletionsPerPrompt) {
    errors.push_back({"sampling.n", absl::StrCat(params.n, " is not in 1..", kMaxCompletionsPerPrompt)});
  }
  return params;
}

void CheckPrompt(const std::string& field, absl::Span<const int> ids, const ModelConfig& config,
                 const SamplingFields& fields, SamplingParams& params, std::vector<FieldError>& errors) {
  if (ids.empty()) {
    errors.push_back({field, "the prompt has no tokens"});
    return;
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < config.vocab_size) continue;
    errors.push_back(
        {field, absl::StrCat("id ", ids[i], " at ", i, " is not in the vocabulary (0..", config.vocab_size - 1, ")")});
    return;
  }
  const int64_t context = config.max_position_embeddings;
  const int64_t left = context - static_cast<int64_t>(ids.size());
  if (left < 1) {
    errors.push_back({field, absl::StrCat("the prompt has ", ids.size(), " tokens; the model's context of ", context,
                                          " leaves no room for a completion: shorten it")});
  } else if (params.max_tokens <= left) {
    return;
  } else if (!fields.max_tokens) {
    params.max_tokens = static_cast<int>(left);
  } else {
    errors.push_back({"sampling.max_tokens",
                      absl::StrCat("the prompt has ", ids.size(), " tokens, max_tokens is ", params.max_tokens,
                                   ", the model's context is ", context, ": at most ", left, " fit")});
  }
}

}  // namespace tandem::inference
