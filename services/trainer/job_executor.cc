#include "services/trainer/job_executor.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "services/jobs/output_dir.h"

namespace tandem::trainer {
namespace {

constexpr absl::Duration kConnectSlice = absl::Seconds(1);
constexpr absl::Duration kConnectPause = absl::Milliseconds(100);
// Runs of a job in a row that the loss of the pool ended before a step was committed.
constexpr int kFruitlessRuns = 5;

}  // namespace

JobExecutor::JobExecutor(const Surroundings& around, Options options) : around_(around), options_(std::move(options)) {}

JobExecutor::~JobExecutor() = default;

absl::Status JobExecutor::EnsureSession(absl::Duration timeout, const std::function<absl::Status()>& check) {
  if (session_ != nullptr && session_->arbiter_gone()) DropSession();
  const absl::Duration start = around_.clock.Now();
  while (session_ == nullptr) {
    TANDEM_RETURN_IF_ERROR(check());
    tenant::SessionOptions options = options_.session;
    options.connect_timeout = std::min(timeout, kConnectSlice);
    absl::StatusOr<std::unique_ptr<tenant::Session>> session = tenant::Session::Connect(std::move(options));
    if (session.ok()) {
      session_ = *std::move(session);
      arena_bytes_ = session_->arena_bytes();
      LOG_INFO("attached to the arbiter, arena of {} bytes", session_->arena_bytes());
      return absl::OkStatus();
    }
    if (around_.clock.Now() - start >= timeout) return session.status();
    absl::SleepFor(kConnectPause);
  }
  return absl::OkStatus();
}

void JobExecutor::DropSession() {
  LOG_WARN("the arbiter is gone, and with it the pool; attaching anew");
  served_.reset();
  session_.reset();
  arena_bytes_ = 0;
}

absl::Status JobExecutor::Run(const jobs::JobRecord& job, const jobs::RunControl& control) {
  around_.metrics.OnJobState(job.id, "loading");
  absl::Status outcome;
  jobs::JobRecord record = job;
  for (int fruitless = 0; fruitless < kFruitlessRuns;) {
    outcome = EnsureSession(options_.arbiter_timeout, [&control] { return control.Check(); });
    if (!outcome.ok()) break;
    int64_t steps_done = 0;
    outcome = RunOnce(record, control, steps_done);
    if (outcome.ok() || !session_->arbiter_gone() || !control.Check().ok()) break;
    fruitless = steps_done > 0 ? 0 : fruitless + 1;
    const std::string text = "the arbiter is gone, and with it the pool: going on from the last checkpoint";
    LOG_WARN("job {}: {} ({})", job.id, text, outcome.ToString());
    TANDEM_RETURN_IF_ERROR(around_.store.RecordLog(job.id, {"warning", text}));
    TANDEM_RETURN_IF_ERROR(around_.store.SetState(job.id, jobs::JobState::kLoading));
    TANDEM_ASSIGN_OR_RETURN(record, around_.store.Get(job.id));
  }
  if (!outcome.ok() && !absl::IsAborted(control.Check())) ReleaseUnused(job);
  around_.metrics.OnJobEnd(outcome.ok() ? "succeeded" : control.Check().ok() ? "failed" : "interrupted");
  return outcome;
}

// A job that ended before its first step leaves nothing behind: its directory can be given to another one.
void JobExecutor::ReleaseUnused(const jobs::JobRecord& job) {
  const absl::StatusOr<jobs::JobRecord> now = around_.store.Get(job.id);
  if (!now.ok() || now->step > 0 || now->state == jobs::JobState::kRunning) return;
  jobs::ReleaseOutputDir(job.output_dir);
}

absl::Status JobExecutor::RunOnce(const jobs::JobRecord& job, const jobs::RunControl& control, int64_t& steps_done) {
  // The last job's weights stay served until the new set is readable, where both fit.
  const auto make_room = [this](const MemoryNeed& need) {
    const uint64_t arena = session_->arena_bytes();
    if (served_.has_value() && need.total() <= arena && served_->weights.bytes + need.total() > arena) RetireServed();
  };
  TrainingJob run({*session_, around_.kernels, around_.rollouts, around_.store, around_.metrics, around_.clock,
                   around_.bytes_moved, make_room, [this] { RetireServed(); }},
                  job, control);
  absl::Status outcome = run.Run();
  steps_done = run.steps_done();
  if (std::optional<TrainingMemory::Served> served = run.TakeServed()) served_ = std::move(served);
  return outcome;
}

void JobExecutor::RetireServed() {
  if (!served_.has_value()) return;
  const TrainingMemory::Served served = *std::exchange(served_, std::nullopt);
  if (const absl::Status retired = session_->RetireSet(served.set_id); !retired.ok()) {
    LOG_WARN("retiring the weights of the last job: {}", retired.ToString());
  }
}

void JobExecutor::Idle() {
  const auto go_on = [] { return absl::OkStatus(); };
  if (const absl::Status attached = EnsureSession(absl::ZeroDuration(), go_on); !attached.ok()) return;
  if (!served_.has_value()) return;
  for (const tenant::SetView& set : session_->Sets()) {
    const bool foreign = set.tenant != options_.session.tenant;
    if (foreign && set.id > served_->set_id && set.state == tenant::SetState::kCommitted) {
      LOG_INFO("{} is served now; the last job's weights go", set.name);
      RetireServed();
      return;
    }
  }
}

}  // namespace tandem::trainer
