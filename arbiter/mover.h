#pragma once
// The thread that copies kept bytes between the arena and host memory, and touches host memory ahead of need when it
// has nothing to copy. It knows nothing of turns: the arbiter plans (PoolLedger::PlanGrant) and is told when a batch is
// done.

#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "common/device/device.h"
#include "common/device/host_memory.h"

namespace tandem::arbiter {

// One copy. The buffer outlives it even if its segment is released meanwhile.
struct Copy {
  bool to_host = false;
  uint64_t arena_offset = 0;
  uint64_t bytes = 0;
  uint64_t buffer_offset = 0;
  std::shared_ptr<HostBuffer> buffer;
};

class Mover {
 public:
  explicit Mover(Device& device);
  // Finishes what was started, drops the rest without calling `done`.
  ~Mover();
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;

  // Copies in order, then calls `done` on the mover's thread. The arbiter keeps one batch for a switch and at most one
  // for each segment being made, so the queue is bounded by the tenants' calls.
  void Enqueue(std::vector<Copy> copies, std::function<void()> done);
  // Touches the buffer's pages in the background.
  void Touch(std::shared_ptr<HostBuffer> buffer);

 private:
  struct Batch {
    std::vector<Copy> copies;
    std::function<void()> done;
  };
  void Run();
  void Execute(const Batch& batch);

  Device& device_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Batch> batches_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::shared_ptr<HostBuffer>> untouched_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tandem::arbiter
