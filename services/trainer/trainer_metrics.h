#pragma once
// What the trainer tells Prometheus. Thread-safe.

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <map>
#include <memory>
#include <string>

#include "services/trainer/grpo/metrics.h"

namespace tandem::trainer {

class TrainerMetrics {
 public:
  explicit TrainerMetrics(std::shared_ptr<prometheus::Registry> registry);

  // An optimizer step was committed: its metrics by TRL's names, its tokens, and seconds it waited for turns.
  void OnStep(const Metrics& metrics, int64_t tokens_trained, double step_seconds, double turn_wait_seconds);
  // The job that is worked on (0: none) and its state by name.
  void OnJobState(int64_t job_id, const std::string& state);
  void OnJobEnd(const std::string& state);

 private:
  const std::shared_ptr<prometheus::Registry> registry_;
  prometheus::Counter& steps_;
  prometheus::Counter& tokens_;
  prometheus::Counter& turn_wait_seconds_;
  prometheus::Histogram& step_seconds_;
  prometheus::Family<prometheus::Gauge>& last_;  // last value of a step metric
  prometheus::Family<prometheus::Counter>& ended_;
  prometheus::Gauge& job_id_;
  prometheus::Gauge& job_running_;
};

}  // namespace tandem::trainer
