#include "services/trainer/job_messages_service.h"

#include <variant>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace tandem::trainer {
namespace {

// The states of the store and of the protocol have the same numbers.
v1::JobState ToProto(jobs::JobState state) {
  return static_cast<v1::JobState>(state);
}
static_assert(static_cast<int>(jobs::JobState::kQueued) == v1::JOB_STATE_QUEUED);
static_assert(static_cast<int>(jobs::JobState::kLoading) == v1::JOB_STATE_LOADING);
static_assert(static_cast<int>(jobs::JobState::kRunning) == v1::JOB_STATE_RUNNING);
static_assert(static_cast<int>(jobs::JobState::kSucceeded) == v1::JOB_STATE_SUCCEEDED);
static_assert(static_cast<int>(jobs::JobState::kFailed) == v1::JOB_STATE_FAILED);
static_assert(static_cast<int>(jobs::JobState::kCancelled) == v1::JOB_STATE_CANCELLED);

void ToProto(const jobs::JobSummary& summary, v1::JobSummary& out) {
  out.set_generation_seconds(summary.generation_seconds);
  out.set_reward_seconds(summary.reward_seconds);
  out.set_train_seconds(summary.train_seconds);
  out.set_switch_seconds(summary.switch_seconds);
  out.set_turns(summary.turns);
  out.set_bytes_moved(summary.bytes_moved);
  out.set_versions(summary.versions);
  out.set_optimizer_steps(summary.optimizer_steps);
  out.set_tokens_generated(summary.tokens_generated);
  out.set_tokens_trained(summary.tokens_trained);
  out.set_checkpoint(summary.checkpoint);
}

struct EventToProto {
  v1::JobEvent& out;

  void operator()(const jobs::StateChanged& event) const {
    out.mutable_state()->set_state(ToProto(event.state));
    out.mutable_state()->set_error(event.error);
  }
  void operator()(const jobs::StepDone& event) const {
    out.mutable_step()->set_step(event.step);
    out.mutable_step()->set_max_steps(event.max_steps);
    out.mutable_step()->mutable_metrics()->insert(event.metrics.begin(), event.metrics.end());
    out.mutable_step()->set_version(event.version);
  }
  void operator()(const jobs::EvalDone& event) const {
    out.mutable_eval()->set_step(event.step);
    out.mutable_eval()->set_rows(event.rows);
    out.mutable_eval()->set_mean_reward(event.mean_reward);
    out.mutable_eval()->set_seconds(event.seconds);
  }
  void operator()(const jobs::CheckpointWritten& event) const {
    out.mutable_checkpoint()->set_step(event.step);
    out.mutable_checkpoint()->set_path(event.path);
  }
  void operator()(const jobs::LogLine& event) const {
    out.mutable_log()->set_level(event.level);
    out.mutable_log()->set_text(event.text);
  }
};

}  // namespace

void ToProto(const jobs::JobRecord& job, v1::Job& out) {
  out.set_id(job.id);
  out.set_name(job.name);
  out.set_task(job.task);
  out.set_state(ToProto(job.state));
  out.set_step(job.step);
  out.set_max_steps(job.max_steps);
  out.set_output_dir(job.output_dir);
  out.set_error(job.error);
  out.set_submitted_at(job.submitted_at);
  out.set_started_at(job.started_at);
  out.set_ended_at(job.ended_at);
  out.set_resolved_yaml(job.resolved_yaml);
  out.mutable_metrics()->insert(job.metrics.begin(), job.metrics.end());
  out.set_resumed_from_step(job.resumed_from_step);
  ToProto(job.summary, *out.mutable_summary());
}

void ToProto(const jobs::JobEvent& event, v1::JobEvent& out) {
  out.set_sequence(event.sequence);
  out.set_time(event.time);
  std::visit(EventToProto{out}, event.event);
}

void ToProto(const jobs::Progress& progress, v1::JobEvent& out) {
  out.set_time(absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()));
  out.mutable_progress()->set_step(progress.step);
  out.mutable_progress()->set_phase(progress.phase);
  out.mutable_progress()->set_fraction(progress.fraction);
  out.mutable_progress()->set_tokens_per_second(progress.tokens_per_second);
}

}  // namespace tandem::trainer
