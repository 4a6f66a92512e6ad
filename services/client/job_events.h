#pragma once
// The events of a job as a bounded queue: a thread reads the trainer's WatchJob stream and opens it again, from the
// last event seen, when the trainer is away for a while. The stream's lifetime is the object's; Next is for one thread.

#include <deque>
#include <memory>
#include <optional>
#include <thread>

#include "common/base/mutex.h"
#include "services/client/daemon_call.h"

namespace tandem::client {

class JobEvents {
 public:
  JobEvents(const RunDir& run_dir, int64_t job_id, int64_t after);
  ~JobEvents();
  JobEvents(const JobEvents&) = delete;
  JobEvents& operator=(const JobEvents&) = delete;

  // The next event; nullopt if none came within `timeout` or the stream has ended.
  std::optional<v1::JobEvent> Next(absl::Duration timeout);
  // The stream has ended for good and the queue is empty: OK when the job has ended, else what went wrong.
  std::optional<grpc::Status> Ended() const;
  // The trainer does not answer right now.
  bool Away() const;

 private:
  static constexpr size_t kMaxQueued = 1024;
  // How long the trainer may be away before the stream is given up.
  static constexpr absl::Duration kMaxAway = absl::Minutes(2);

  void Read();
  grpc::Status ReadOnce();
  bool Push(v1::JobEvent event);  // false: the object is going

  const int64_t job_id_;
  std::unique_ptr<v1::Trainer::Stub> stub_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<v1::JobEvent> queue_ ABSL_GUARDED_BY(mutex_);
  grpc::ClientContext* stream_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::optional<grpc::Status> ended_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool away_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t last_sequence_ = 0;  // reader thread only
  bool got_event_ = false;     // reader thread only: since the stream was opened
  std::thread reader_;
};

}  // namespace tandem::client
