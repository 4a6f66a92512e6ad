#pragma once
// The engine: one thread that owns the session with the arbiter, asks for the turn when there is work, runs steps while
// it holds it, and yields when asked or when nothing is left. When the arbiter dies it connects again, for ever.
//
// Everything else talks to it through an inbox: Submit, Abort, Load and Release may be called from any thread. What is
// served is published for all to read. Requests wait in a queue of at most max_queue.
// Yield keeps the KV cache while completions are live, and drops it otherwise; the workspace is always dropped.

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "kernels/kernels.h"
#include "services/inference/inference_metrics.h"
#include "services/inference/model_host.h"
#include "services/inference/ticket.h"
#include "services/inference/turn_waiter.h"

namespace tandem::inference {

struct EngineOptions {
  std::string run_dir;
  std::string model;      // directory to load at the start; empty: none
  uint64_t kv_bytes = 0;  // 0: a quarter of the pool
  int max_batch = 256;
  int prefill_tokens = 512;
  int max_queue = 64;
  absl::Duration longest_unit = absl::Seconds(5);
};

// How busy the engine is.
struct Occupancy {
  int running = 0, waiting = 0, kv_blocks = 0, kv_blocks_used = 0;
};

class Engine {
 public:
  // `kernels`, `clock` and `metrics` must outlive the engine. Starts the thread; does not wait for the arbiter.
  Engine(EngineOptions options, Kernels& kernels, const Clock& clock, InferenceMetrics& metrics);
  ~Engine();

  ServedState served() const;
  Occupancy occupancy() const;
  // Waits until `wanted` is what is served: what has been committed reaches this service a moment after its writer.
  // FAILED_PRECONDITION says what is served instead, when `timeout` has passed or the version is already a later one.
  absl::StatusOr<std::shared_ptr<const ServedModel>> WaitServed(WeightsVersion wanted, absl::Duration timeout) const;

  // Queues a request and returns its id; from then on its sink gets OnDone once. RESOURCE_EXHAUSTED when the queue is
  // full.
  absl::StatusOr<uint64_t> Submit(Request request);
  // Ends a request soon; its sink gets CANCELLED.
  void Abort(uint64_t id);
  // Loads a model that PrepareLoad has checked; waits until it is served, at most `timeout`.
  absl::Status Load(PreparedLoad load, absl::Duration timeout);
  // Retires the own set, if any; waits until that is done.
  absl::Status Release(absl::Duration timeout);

 private:
  using Command = std::function<void()>;

  void Run();
  // Session, host and waiter; sleeps and returns false when the arbiter cannot be reached.
  bool Connected();
  void Disconnect();
  void Post(Command command);
  void DrainInbox();
  void Sleep(absl::Duration longest);
  void TakeTurn();
  void RunTurn(tenant::Turn& turn);
  void LoadInTurn(tenant::Turn& turn);
  bool HasWork() const;
  void Add(Request request);
  void Publish();
  bool Stopping() const;

  const EngineOptions options_;
  Kernels& kernels_;
  const Clock& clock_;
  InferenceMetrics& metrics_;

  // The engine's thread only.
  std::unique_ptr<tenant::Session> session_;
  std::unique_ptr<ModelHost> host_;
  std::unique_ptr<TurnWaiter> waiter_;
  std::optional<absl::Duration> asked_at_;
  absl::Duration retry_ = absl::Milliseconds(100);
  absl::Status connect_error_;           // the last one, logged once
  std::optional<PreparedLoad> load_;     // waits for the turn
  std::shared_ptr<Ticket> load_ticket_;  // null: nobody waits for it
  std::string own_dir_;                  // loaded again when the pool is lost
  bool sets_changed_ = true;
  absl::Duration next_adoption_;

  mutable Mutex mutex_;
  mutable CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Command> inbox_ ABSL_GUARDED_BY(mutex_);
  int submitted_ ABSL_GUARDED_BY(mutex_) = 0;  // requests in inbox_
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  ServedState served_ ABSL_GUARDED_BY(mutex_);
  Occupancy occupancy_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;  // last: starts when everything else is there
};

}  // namespace tandem::inference
