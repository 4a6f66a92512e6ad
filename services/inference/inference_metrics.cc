#include "services/inference/inference_metrics.h"

#include <string>

namespace tandem::inference {
namespace {

prometheus::Counter& NewCounter(prometheus::Registry& registry, const std::string& name, const std::string& text) {
  return prometheus::BuildCounter().Name("tandem_inference_" + name).Help(text).Register(registry).Add({});
}

prometheus::Gauge& NewGauge(prometheus::Registry& registry, const std::string& name, const std::string& text) {
  return prometheus::BuildGauge().Name("tandem_inference_" + name).Help(text).Register(registry).Add({});
}

// From a millisecond to half a minute, two buckets an octave and a half.
prometheus::Histogram& NewHistogram(prometheus::Registry& registry, const std::string& name, const std::string& text) {
  static const prometheus::Histogram::BucketBoundaries kSeconds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                                   0.25,  0.5,    1,     2.5,  5,     10,   30};
  return prometheus::BuildHistogram().Name("tandem_inference_" + name).Help(text).Register(registry).Add({}, kSeconds);
}

}  // namespace

InferenceMetrics::InferenceMetrics(prometheus::Registry& registry)
    : prompt_tokens_(NewCounter(registry, "prompt_tokens_total", "Rows computed for prompts, recomputation included")),
      generated_tokens_(NewCounter(registry, "generated_tokens_total", "Tokens sampled")),
      steps_(NewCounter(registry, "steps_total", "Steps executed")),
      busy_seconds_(NewCounter(registry, "busy_seconds_total", "Time spent in steps")),
      turns_(NewCounter(registry, "turns_total", "Turns taken")),
      refused_(NewCounter(registry, "refused_requests_total", "Requests refused because the queue was full")),
      running_(NewGauge(registry, "running_completions", "Completions that hold KV blocks")),
      waiting_(NewGauge(registry, "waiting_requests", "Requests that wait for their first KV blocks")),
      kv_blocks_(NewGauge(registry, "kv_blocks", "KV blocks of the cache")),
      kv_blocks_used_(NewGauge(registry, "kv_blocks_used", "KV blocks in use")),
      preemptions_(
          NewGauge(registry, "preemptions", "Completions that gave up their KV blocks, since this model is served")),
      weights_version_(NewGauge(registry, "weights_version", "Version of the served weights")),
      first_token_seconds_(NewHistogram(registry, "time_to_first_token_seconds", "From arrival to the first token")),
      token_gap_seconds_(NewHistogram(registry, "inter_token_seconds", "Between tokens of one completion")),
      turn_wait_seconds_(NewHistogram(registry, "turn_wait_seconds", "Between asking for a turn and having it")) {}

void InferenceMetrics::Step(const StepReport& report, absl::Duration spent) {
  steps_.Increment();
  busy_seconds_.Increment(absl::ToDoubleSeconds(spent));
  prompt_tokens_.Increment(report.prompt_rows);
  generated_tokens_.Increment(report.tokens);
  prompt_tokens_total_ += static_cast<uint64_t>(report.prompt_rows);
  generated_tokens_total_ += static_cast<uint64_t>(report.tokens);
  for (const absl::Duration wait : report.first_token_waits) first_token_seconds_.Observe(absl::ToDoubleSeconds(wait));
  for (const absl::Duration gap : report.token_gaps) token_gap_seconds_.Observe(absl::ToDoubleSeconds(gap));
}

void InferenceMetrics::Occupancy(const Generator* generator) {
  running_.Set(generator == nullptr ? 0 : generator->scheduler().running());
  waiting_.Set(generator == nullptr ? 0 : generator->scheduler().waiting_requests());
  kv_blocks_.Set(generator == nullptr ? 0 : generator->scheduler().blocks().total());
  kv_blocks_used_.Set(generator == nullptr ? 0 : generator->scheduler().blocks().used());
  preemptions_.Set(generator == nullptr ? 0 : static_cast<double>(generator->scheduler().preemptions()));
}

void InferenceMetrics::Turn(absl::Duration waited) {
  turns_.Increment();
  turn_wait_seconds_.Observe(absl::ToDoubleSeconds(waited));
}

void InferenceMetrics::WeightsVersion(uint64_t version) {
  weights_version_.Set(static_cast<double>(version));
}

void InferenceMetrics::Refused() {
  refused_.Increment();
}

}  // namespace tandem::inference
