#include "kernels/cpu/thread_pool.h"

#include <immintrin.h>

namespace tandem {
namespace {

// About 30 us of looking for the next job before sleeping: longer than the gap between two operations of a decode step.
constexpr int kSpins = 1000;

}  // namespace

ThreadPool::ThreadPool(int threads) {
  constexpr size_t kPad = 64 / sizeof(float);
  scratch_ = std::make_unique<float[]>(kScratchFloats * threads + kPad);
  const auto address = reinterpret_cast<uintptr_t>(scratch_.get());
  scratch_begin_ = scratch_.get() + (64 - address % 64) % 64 / sizeof(float);
  for (int thread = 1; thread < threads; ++thread) workers_.emplace_back([this, thread] { Work(thread); });
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  ++generation_;
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

int ThreadPool::threads() const {
  return static_cast<int>(workers_.size()) + 1;
}

float* ThreadPool::scratch(int thread) {
  return scratch_begin_ + kScratchFloats * thread;
}

void ThreadPool::Run(int64_t tasks, Task task, void* context) {
  if (tasks <= 1 || workers_.empty()) {
    for (int64_t i = 0; i < tasks; ++i) task(context, i, 0);
    return;
  }
  task_ = task;
  context_ = context;
  tasks_ = tasks;
  next_ = 0;
  open_ = true;
  ++generation_;
  if (sleeping_ > 0) generation_.notify_all();
  Drain(0);
  // Closing before looking at inside_ pairs with Work, which enters before looking at open_: a worker that entered in
  // time is waited for, one that comes later sees a closed job and touches nothing.
  open_ = false;
  for (int spin = 0; inside_ > 0; ++spin) {
    if (spin < kSpins) {
      _mm_pause();
    } else {
      std::this_thread::yield();
    }
  }
}

void ThreadPool::Drain(int thread) {
  for (;;) {
    const int64_t task = next_.fetch_add(1);
    if (task >= tasks_) return;
    task_(context_, task, thread);
  }
}

void ThreadPool::Work(int thread) {
  uint32_t seen = 0;
  while (!stop_) {
    for (int spin = 0; spin < kSpins && generation_ == seen; ++spin) _mm_pause();
    if (generation_ == seen) {
      ++sleeping_;
      generation_.wait(seen);
      --sleeping_;
    }
    seen = generation_;
    ++inside_;
    if (open_) Drain(thread);
    --inside_;
  }
}

}  // namespace tandem
