#pragma once
// What a Session does behind its header: the tenant's picture of its state, kept by the arbiter's messages.
// Messages come on the stream's thread, calls on any; one mutex guards the picture, and no call is made under it.

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "services/tenant/arbiter_calls.h"
#include "services/tenant/attach_stream.h"
#include "services/tenant/lifeline_client.h"
#include "services/tenant/session.h"

namespace tandem::tenant {

class Session::Impl {
 public:
  static absl::StatusOr<std::unique_ptr<Impl>> Connect(SessionOptions options);
  ~Impl();

  // ---- memory (session_memory.cc)
  absl::StatusOr<Segment> Create(const v1::CreateSegmentRequest& request);
  absl::Status Release(const Segment& segment);
  absl::StatusOr<SetView> CreateSet(const v1::CreateSetRequest& request);
  absl::Status RetireSet(uint64_t set_id);
  absl::StatusOr<Segment> MapSet(const SetView& set);
  absl::Status UnmapSegment(uint64_t segment_id);
  std::vector<SetView> Sets() const;

  // ---- turns (session_turns.cc)
  struct Granted {
    uint64_t token = 0;
    std::vector<SetView> sets;
    std::vector<uint64_t> lost;
  };
  absl::StatusOr<Granted> RequestTurn(absl::Duration timeout);
  absl::Status Yield(uint64_t token, const std::vector<const Segment*>& keep);
  absl::Status BeginWrite(uint64_t token, uint64_t set_id);
  absl::StatusOr<uint64_t> Commit(uint64_t token, uint64_t set_id, const std::string& note);
  bool HoldsTurn() const;
  bool ShouldYield() {
    progress_.fetch_add(1, std::memory_order_relaxed);
    return should_yield_.load(std::memory_order_relaxed);
  }

  void Progress() { progress_.fetch_add(1, std::memory_order_relaxed); }
  bool arbiter_gone() const { return arbiter_gone_; }
  uint64_t arena_bytes() const { return uint64_t{lifeline_->welcome().blocks} * lifeline_->welcome().block_bytes; }
  uint64_t turns() const { return turns_; }
  double waited_seconds() const { return static_cast<double>(waited_ns_) * 1e-9; }
  void BreakStream() { stream_->Break(); }

 private:
  struct Owned {
    Segment segment;
    bool keepable = false;
  };
  struct Foreign {
    Segment segment;
    uint32_t first_block = 0;
    uint32_t blocks = 0;
  };
  // The request for a turn that is under way.
  struct Request {
    uint64_t id = 0;
    std::optional<Granted> granted;
  };

  explicit Impl(SessionOptions options) : options_(std::move(options)) {}
  absl::Status Start();
  absl::Status AwaitState(absl::Time deadline);
  void BeatLoop();
  void OnGone(const char* sign);
  absl::Status Gone() const;

  // Messages, on the stream's thread.
  void OnMessage(const v1::ArbiterMessage& message);
  void OnState(const v1::SessionState& state);
  void OnGrant(const v1::Grant& grant);
  void OnRevoke(const v1::Revoke& revoke);
  void OnUnmap(uint64_t segment_id);
  void OnSetChanged(const v1::SetInfo& info);
  void OnRemap(const v1::Remap& remap);

  absl::StatusOr<v1::MapSegmentReply> Map(uint64_t segment_id, bool writable);
  void SendUnmapDone(uint64_t segment_id);
  SetView Merge(const v1::SetInfo& info) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<SetView> ReplaceSets(const v1::SessionState& state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<v1::TenantMessage> ReconcileTurn(const v1::SessionState& state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Accept(uint64_t token, std::vector<SetView> sets, std::vector<uint64_t> lost)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  v1::TenantMessage YieldUntouched(uint64_t token, const std::vector<uint64_t>& lost)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SessionOptions options_;
  std::atomic<bool> arbiter_gone_{false};
  std::atomic<bool> should_yield_{false};
  std::atomic<uint64_t> progress_{0};
  std::atomic<uint64_t> turns_{0};
  std::atomic<int64_t> waited_ns_{0};

  mutable Mutex mutex_;
  mutable CondVar changed_;
  bool attached_ ABSL_GUARDED_BY(mutex_) = false;  // the first state has come
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<uint64_t, SetView> sets_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, Owned> owned_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, Foreign> foreign_ ABSL_GUARDED_BY(mutex_);
  std::optional<Request> request_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_turn_request_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t held_token_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t open_window_ ABSL_GUARDED_BY(mutex_) = 0;      // set id
  v1::TenantMessage last_yield_ ABSL_GUARDED_BY(mutex_);  // sent again if the arbiter did not get it

  // In order of their making; they end in the reverse order.
  std::unique_ptr<LifelineClient> lifeline_;
  std::unique_ptr<ArbiterCalls> calls_;
  std::unique_ptr<AttachStream> stream_;
  std::thread beat_;
};

}  // namespace tandem::tenant
