#pragma once
// What a job that is followed looks like on the terminal. Pure: plain values to text.

#include <map>
#include <optional>
#include <string>

namespace tandem::client {

// What is known of the job now.
struct ProgressView {
  std::string name;  // "sums (job 3)"
  std::string stage = "queued";
  int64_t step = 0;
  int64_t max_steps = 0;
  double fraction = 0;  // of the stage
  double tokens_per_second = 0;
  std::string turn_holder;                // tenant; empty: nobody
  std::map<std::string, double> metrics;  // of the last step, by TRL's names
};

// One line of at most `width` characters:
// "sums (job 3) step 12/75 generation 40%  reward 0.612  gap 0  812 tok/s  turn: inference".
std::string LiveLine(const ProgressView& view, int width);

// One line for a finished step: "step 12/75 reward=0.612 loss=0.0031 gap=0 grad_norm=0.41".
std::string StepLine(int64_t step, int64_t max_steps, const std::map<std::string, double>& metrics);

// The largest difference between a log-probability of inference and the trainer's for the same token, if it was
// measured.
std::optional<double> LogprobGap(const std::map<std::string, double>& metrics);

// "1.5 GiB", "0 bytes".
std::string HumanBytes(uint64_t bytes);

}  // namespace tandem::client
