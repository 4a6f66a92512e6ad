#include "kernels/cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace tandem {
namespace {

TEST(ThreadPool, RunsEveryTaskOnceOverManyShortJobs) {
  ThreadPool pool(4);
  std::vector<std::atomic<int>> runs(7);
  for (int job = 0; job < 20000; ++job) {
    pool.Run(
        static_cast<int64_t>(runs.size()),
        [](void* context, int64_t task, int) { ++(*static_cast<std::vector<std::atomic<int>>*>(context))[task]; },
        &runs);
    for (const auto& count : runs) ASSERT_EQ(count, job + 1);
  }
}

TEST(ThreadPool, GivesEachThreadItsOwnAlignedScratch) {
  ThreadPool pool(3);
  for (int thread = 0; thread < pool.threads(); ++thread) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pool.scratch(thread)) % 64, 0U);
    if (thread == 0) continue;
    EXPECT_GE(pool.scratch(thread) - pool.scratch(thread - 1), ThreadPool::kScratchFloats);
  }
}

TEST(ThreadPool, EndsWithoutHavingRunAnything) {
  ThreadPool pool(4);
}

}  // namespace
}  // namespace tandem
