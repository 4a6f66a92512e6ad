#pragma once
// A few threads that share the tasks of one call, for kernels that last from microseconds up.
//
// Tasks are claimed one by one, so which thread runs a task is not determined: a task's result must not depend on it.
// The caller works too, and never waits for a thread that has not begun: a busy machine slows a call but does not stall
// it. Threads: Run is called by one thread at a time.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace tandem {

class ThreadPool {
 public:
  // `task` in [0, tasks), `thread` in [0, threads()) names the scratch that the task may use.
  using Task = void (*)(void* context, int64_t task, int thread);

  // Floats of scratch for each thread; a constant, whatever the model.
  static constexpr size_t kScratchFloats = size_t{192} << 10;

  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;
  // 64-byte aligned.
  float* scratch(int thread);
  // Runs every task and returns when all are done.
  void Run(int64_t tasks, Task task, void* context);

 private:
  void Work(int thread);
  void Drain(int thread);

  std::vector<std::thread> workers_;
  std::unique_ptr<float[]> scratch_;
  float* scratch_begin_ = nullptr;
  // The open job; written by Run while no worker is inside.
  Task task_ = nullptr;
  void* context_ = nullptr;
  int64_t tasks_ = 0;
  std::atomic<int64_t> next_{0};
  std::atomic<bool> open_{false};
  std::atomic<int> inside_{0};
  std::atomic<int> sleeping_{0};
  std::atomic<uint32_t> generation_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace tandem
