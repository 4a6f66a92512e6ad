#include "services/inference/inference_options.h"

#include "absl/strings/str_format.h"

namespace tandem::inference {

absl::Status InferenceOptions::Validate() const {
  if (run_dir.empty()) return absl::InvalidArgumentError("--run_dir is empty; give the directory with arbiter.sock");
  struct Range {
    const char* name;
    int64_t value, least, most;
  };
  const Range ranges[] = {{"max_batch", max_batch, 1, 65536},
                          {"prefill_tokens", prefill_tokens, 1, 65536},
                          {"request_timeout_ms", request_timeout_ms, 1, int64_t{24} * 3600 * 1000},
                          {"max_queue", max_queue, 1, 65536},
                          {"threads", threads, 0, 1024}};
  for (const Range& range : ranges) {
    if (range.value >= range.least && range.value <= range.most) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("--%s is %d; give %d to %d", range.name, range.value, range.least, range.most));
  }
  return absl::OkStatus();
}

std::string InferenceOptions::ToString() const {
  return absl::StrFormat(
      "run_dir=%s model=%s kv_bytes=%d max_batch=%d prefill_tokens=%d request_timeout_ms=%d max_queue=%d threads=%d "
      "metrics_address=%s tcp=%s",
      run_dir, model, kv_bytes, max_batch, prefill_tokens, request_timeout_ms, max_queue, threads, metrics_address,
      tcp);
}

}  // namespace tandem::inference
