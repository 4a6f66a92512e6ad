#pragma once
// How to choose tokens; names and meanings follow vLLM and OpenAI. Plain data, checked where requests come in
// (request_check.h); everything behind it trusts the ranges.

#include <cstdint>

namespace tandem::inference {

struct SamplingParams {
  float temperature = 1.0F;  // 0: greedy; else finite and positive
  int top_k = 0;             // keep the k most likely tokens; 0 and -1: all
  double top_p = 1.0;        // keep the smallest set of most likely tokens whose probability reaches p, in (0, 1]
  uint64_t seed = 0;         // key of the random numbers
  int max_tokens = 16;       // most tokens of a completion, at least 1
  int n = 1;                 // completions for each prompt, at least 1
  bool ignore_eos = false;   // go on after an end token
};

// The temperature of reported log-probabilities: greedy requests report those at temperature 1.
inline float LogprobTemperature(const SamplingParams& params) {
  return params.temperature == 0.0F ? 1.0F : params.temperature;
}

}  // namespace tandem::inference
