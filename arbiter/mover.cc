#include "arbiter/mover.h"

#include <utility>

#include "common/base/status.h"

namespace tandem::arbiter {
namespace {

constexpr uint64_t kTouchStepBytes = uint64_t{8} << 20;  // about 7 ms: a hand-over waits at most that long
constexpr absl::Duration kIdleWait = absl::Seconds(1);

}  // namespace

Mover::Mover(Device& device) : device_(device), thread_([this] { Run(); }) {}

Mover::~Mover() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void Mover::Enqueue(std::vector<Copy> copies, std::function<void()> done) {
  MutexLock lock(mutex_);
  batches_.push_back({std::move(copies), std::move(done)});
  changed_.NotifyAll();
}

void Mover::Touch(std::shared_ptr<HostBuffer> buffer) {
  MutexLock lock(mutex_);
  untouched_.push_back(std::move(buffer));
  changed_.NotifyAll();
}

void Mover::Run() {
  mutex_.Lock();
  while (!stopping_) {
    if (!batches_.empty()) {
      const Batch batch = std::move(batches_.front());
      batches_.pop_front();
      mutex_.Unlock();
      Execute(batch);
      mutex_.Lock();
    } else if (!untouched_.empty()) {
      const std::shared_ptr<HostBuffer> buffer = std::move(untouched_.front());
      untouched_.pop_front();
      const bool wanted = buffer.use_count() > 1;  // else its segment is gone
      mutex_.Unlock();
      const bool more = wanted && buffer->TouchNext(kTouchStepBytes);
      mutex_.Lock();
      if (more) untouched_.push_front(buffer);
    } else {
      changed_.WaitFor(mutex_, kIdleWait);
    }
  }
  mutex_.Unlock();
}

void Mover::Execute(const Batch& batch) {
  for (const Copy& copy : batch.copies) {
    std::byte* host = copy.buffer->data() + copy.buffer_offset;
    const absl::Status copied = copy.to_host ? device_.CopyToHost(copy.arena_offset, copy.bytes, host)
                                             : device_.CopyFromHost(copy.arena_offset, copy.bytes, host);
    TANDEM_CHECK(copied.ok(), copied.ToString());  // on the host a copy can not fail; a broken device ends the process
  }
  batch.done();
}

}  // namespace tandem::arbiter
