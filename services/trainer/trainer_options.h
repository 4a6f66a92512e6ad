#pragma once
// What tandem-trainer is started with.

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace tandem::trainer {

struct TrainerOptions {
  std::string run_dir;    // holds arbiter.sock and inference.sock; trainer.sock is made there
  std::string state_dir;  // jobs.sqlite; default: RUN_DIR
  int64_t threads = 0;    // of the kernels; 0: one for each processor
  // The longest pack: the arbiter ends a holder that does not yield within twice this and its grace.
  int64_t longest_unit_ms = 20'000;
  std::string metrics_address = "127.0.0.1:0";
  std::string tcp;  // empty: Unix socket only
  std::string log_level = "info";

  // INVALID_ARGUMENT names the flag, its value and the remedy. Fills in state_dir.
  absl::Status Resolve();
  std::string ToString() const;
};

}  // namespace tandem::trainer
