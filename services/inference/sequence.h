#pragma once
// One completion on its way: its tokens, how far its keys and values are computed, and its blocks.
// Plain data of the engine's thread. BatchScheduler owns sequences and changes them; the generator reads them.

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "services/inference/kv_blocks.h"

namespace tandem::inference {

struct Sequence {
  uint64_t request = 0;     // who asked; grows with arrival
  int index = 0;            // completion within the request: prompt * n + sample
  int forks = 1;            // completions that start when this prompt is computed; 1 once it has a token of its own
  int prompt_tokens = 0;    // how many of `tokens` are the prompt
  std::vector<int> tokens;  // prompt, then completion; the last one's keys and values are never needed before the next
  int computed = 0;         // tokens whose keys and values are in `blocks`
  BlockTable blocks;
  absl::Duration last_token;  // when the newest token came, on the engine's clock

  // First come, first served: arrival of the request, then index.
  std::pair<uint64_t, int> order() const { return {request, index}; }
  int remaining() const { return static_cast<int>(tokens.size()) - computed; }
  int completion_tokens() const { return static_cast<int>(tokens.size()) - prompt_tokens; }
};

}  // namespace tandem::inference
