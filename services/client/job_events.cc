#include "services/client/job_events.h"

#include "absl/time/clock.h"

namespace tandem::client {

JobEvents::JobEvents(const RunDir& run_dir, int64_t job_id, int64_t after)
    : job_id_(job_id), stub_(TrainerStub(run_dir)), last_sequence_(after), reader_([this] { Read(); }) {}

JobEvents::~JobEvents() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    if (stream_ != nullptr) stream_->TryCancel();
    changed_.NotifyAll();
  }
  reader_.join();
}

std::optional<v1::JobEvent> JobEvents::Next(absl::Duration timeout) {
  const MutexLock lock(mutex_);
  if (queue_.empty() && !ended_.has_value()) changed_.WaitFor(mutex_, timeout);
  if (queue_.empty()) return std::nullopt;
  v1::JobEvent event = std::move(queue_.front());
  queue_.pop_front();
  changed_.NotifyAll();
  return event;
}

std::optional<grpc::Status> JobEvents::Ended() const {
  const MutexLock lock(mutex_);
  return queue_.empty() ? ended_ : std::nullopt;
}

bool JobEvents::Away() const {
  const MutexLock lock(mutex_);
  return away_;
}

void JobEvents::Read() {
  absl::Time away_since = absl::Now();
  while (true) {
    got_event_ = false;
    const grpc::Status status = ReadOnce();
    if (got_event_) away_since = absl::Now();
    const bool again = status.error_code() == grpc::StatusCode::UNAVAILABLE && absl::Now() - away_since < kMaxAway;
    const MutexLock lock(mutex_);
    away_ = again;
    if (!again || stopping_) {
      ended_ = status;
      changed_.NotifyAll();
      return;
    }
    changed_.WaitFor(mutex_, absl::Milliseconds(200));
  }
}

grpc::Status JobEvents::ReadOnce() {
  grpc::ClientContext context;  // no deadline: a job may take days; the destructor cancels it
  v1::WatchJobRequest request;
  request.set_job_id(job_id_);
  request.set_after(last_sequence_);
  {
    const MutexLock lock(mutex_);
    if (stopping_) return {grpc::StatusCode::CANCELLED, "detached"};
    stream_ = &context;
  }
  const auto reader = stub_->WatchJob(&context, request);
  v1::JobEvent event;
  while (reader->Read(&event)) {
    got_event_ = true;
    last_sequence_ = std::max(last_sequence_, event.sequence());
    if (!Push(std::move(event))) break;
  }
  grpc::Status status = reader->Finish();
  const MutexLock lock(mutex_);
  stream_ = nullptr;
  return status;
}

bool JobEvents::Push(v1::JobEvent event) {
  const MutexLock lock(mutex_);
  away_ = false;
  while (queue_.size() >= kMaxQueued && !stopping_) changed_.WaitFor(mutex_, absl::Seconds(1));
  if (stopping_) return false;
  queue_.push_back(std::move(event));
  changed_.NotifyAll();
  return true;
}

}  // namespace tandem::client
