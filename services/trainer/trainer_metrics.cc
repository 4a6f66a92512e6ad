#include "services/trainer/trainer_metrics.h"

#include <utility>

namespace tandem::trainer {
namespace {

prometheus::Counter& MakeCounter(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add({});
}

prometheus::Gauge& MakeGauge(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({});
}

// Which of a step's metrics are exported, and as which `metric` label.
constexpr std::pair<const char*, const char*> kExported[] = {
    {"loss", "loss"},
    {"reward", "reward"},
    {"grad_norm", "grad_norm"},
    {"learning_rate", "learning_rate"},
    {"entropy", "entropy"},
    {"completions/mean_length", "completion_length"},
    {"sampling/sampling_logp_difference/max", "sampling_logp_difference_max"},
};

}  // namespace

TrainerMetrics::TrainerMetrics(std::shared_ptr<prometheus::Registry> registry)
    : registry_(std::move(registry)),
      steps_(MakeCounter(*registry_, "tandem_trainer_steps_total", "Optimizer steps committed.")),
      tokens_(MakeCounter(*registry_, "tandem_trainer_tokens_total", "Tokens trained.")),
      turn_wait_seconds_(MakeCounter(*registry_, "tandem_trainer_turn_wait_seconds_total", "Waits for turns.")),
      step_seconds_(prometheus::BuildHistogram()
                        .Name("tandem_trainer_step_seconds")
                        .Help("Whole optimizer steps, rollouts included.")
                        .Register(*registry_)
                        .Add({}, prometheus::Histogram::BucketBoundaries{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300})),
      last_(prometheus::BuildGauge()
                .Name("tandem_trainer_last")
                .Help("Last value of a metric of an optimizer step.")
                .Register(*registry_)),
      ended_(prometheus::BuildCounter()
                 .Name("tandem_trainer_jobs_ended_total")
                 .Help("Jobs that ended, by how.")
                 .Register(*registry_)),
      job_id_(MakeGauge(*registry_, "tandem_trainer_job_id", "The job that is worked on; 0: none.")),
      job_running_(MakeGauge(*registry_, "tandem_trainer_job_running", "1 while a job runs, 0 while it loads.")) {}

void TrainerMetrics::OnStep(const Metrics& metrics, int64_t tokens_trained, double step_seconds,
                            double turn_wait_seconds) {
  steps_.Increment();
  tokens_.Increment(static_cast<double>(tokens_trained));
  turn_wait_seconds_.Increment(turn_wait_seconds);
  step_seconds_.Observe(step_seconds);
  for (const auto& [name, label] : kExported) {
    if (const auto value = metrics.find(name); value != metrics.end())
      last_.Add({{"metric", label}}).Set(value->second);
  }
}

void TrainerMetrics::OnJobState(int64_t job_id, const std::string& state) {
  job_id_.Set(static_cast<double>(job_id));
  job_running_.Set(state == "running" ? 1 : 0);
}

void TrainerMetrics::OnJobEnd(const std::string& state) {
  ended_.Add({{"state", state}}).Increment();
  OnJobState(0, "");
}

}  // namespace tandem::trainer
