#pragma once
// Parallel loops for kernel files (compiled with TANDEM_ISA set, like simd.h).

#include <cstdint>

#include "kernels/cpu/thread_pool.h"

namespace tandem::TANDEM_ISA {

// body(task, thread) for every task, on the threads of the pool.
template <typename Body>
void ParallelTasks(ThreadPool& pool, int64_t tasks, const Body& body) {
  pool.Run(
      tasks, [](void* context, int64_t task, int thread) { (*static_cast<const Body*>(context))(task, thread); },
      const_cast<Body*>(&body));
}

// body(begin, end) over [0, n) in pieces; a piece costs about `item_cost` * items (in floats touched), and small loops
// stay on the calling thread. Pieces are multiples of `multiple`, so that threads do not share cache lines.
template <typename Body>
void ParallelRange(ThreadPool& pool, int64_t n, int64_t item_cost, int64_t multiple, const Body& body) {
  constexpr int64_t kPieceCost = 16384;  // a few microseconds
  int64_t piece = (kPieceCost + item_cost - 1) / item_cost;
  const int64_t spread = n / (int64_t{8} * pool.threads());
  if (spread > piece) piece = spread;
  piece = (piece + multiple - 1) / multiple * multiple;
  ParallelTasks(pool, (n + piece - 1) / piece, [&](int64_t task, int) {
    const int64_t begin = task * piece;
    body(begin, begin + piece < n ? begin + piece : n);
  });
}

}  // namespace tandem::TANDEM_ISA
