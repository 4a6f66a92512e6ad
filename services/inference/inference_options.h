#pragma once
// Every setting of the inference daemon in one plain struct. main.cc fills it from flags; Validate names flag, value
// and remedy.

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace tandem::inference {

struct InferenceOptions {
  std::string run_dir;
  std::string model;      // Hugging Face directory to serve while no job runs; empty: none
  uint64_t kv_bytes = 0;  // 0: a quarter of the pool
  int64_t max_batch = 256;
  int64_t prefill_tokens = 512;
  int64_t request_timeout_ms = 60000;
  int64_t max_queue = 64;
  int64_t threads = 0;                          // 0: one for each processor
  std::string metrics_address = "127.0.0.1:0";  // or "off"
  std::string tcp;                              // "host:port"; empty: Unix socket only
  std::string log_level = "info";

  absl::Status Validate() const;
  std::string ToString() const;
};

}  // namespace tandem::inference
