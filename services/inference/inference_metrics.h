#pragma once
// The service's Prometheus metrics. All methods are thread-safe.

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"
#include "services/inference/generator.h"

namespace tandem::inference {

class InferenceMetrics {
 public:
  // `registry` must outlive the metrics.
  explicit InferenceMetrics(prometheus::Registry& registry);

  void Step(const StepReport& report, absl::Duration spent);
  // Queue, batch and cache as they are now; null: nothing is served.
  void Occupancy(const Generator* generator);
  void Turn(absl::Duration waited);
  void WeightsVersion(uint64_t version);
  void Refused();

  uint64_t prompt_tokens() const { return prompt_tokens_total_.load(); }
  uint64_t generated_tokens() const { return generated_tokens_total_.load(); }

 private:
  prometheus::Counter& prompt_tokens_;
  prometheus::Counter& generated_tokens_;
  prometheus::Counter& steps_;
  prometheus::Counter& busy_seconds_;
  prometheus::Counter& turns_;
  prometheus::Counter& refused_;
  prometheus::Gauge& running_;
  prometheus::Gauge& waiting_;
  prometheus::Gauge& kv_blocks_;
  prometheus::Gauge& kv_blocks_used_;
  prometheus::Gauge& preemptions_;
  prometheus::Gauge& weights_version_;
  prometheus::Histogram& first_token_seconds_;
  prometheus::Histogram& token_gap_seconds_;
  prometheus::Histogram& turn_wait_seconds_;
  std::atomic<uint64_t> prompt_tokens_total_{0};
  std::atomic<uint64_t> generated_tokens_total_{0};
};

}  // namespace tandem::inference
