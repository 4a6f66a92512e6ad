#pragma once
// The arbiter: one mutex over the pure parts (state/), one loop for time, deaths and lifelines, one mover for copies.
// Verbs come from the threads of arbiter_service; each is one locked step, and those that must wait for a tenant's
// acknowledgement or a copy wait outside the mutex with a deadline. It never writes to a stream: events go to outboxes.
//
//   arbiter.cc           start, stop, the loop's ticks, broadcasts
//   arbiter_tenants.cc   who is let in, streams, and the proof of a tenant's end
//   arbiter_turns.cc     requests, grants, yields, revokes
//   arbiter_memory.cc    segments, maps, moves, acknowledgements
//   arbiter_sets.cc      sets and versions
//   arbiter_report.cc    the state for people and tools

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "arbiter/arbiter_metrics.h"
#include "arbiter/arbiter_options.h"
#include "arbiter/arbiter_report.h"
#include "arbiter/lifeline_loop.h"
#include "arbiter/mover.h"
#include "arbiter/state/pool_ledger.h"
#include "arbiter/state/set_registry.h"
#include "arbiter/state/turn_machine.h"
#include "arbiter/tenant_record.h"
#include "common/base/clock.h"

namespace tandem::arbiter {

class Arbiter final : private LifelineLoop::Delegate {
 public:
  using TenantPtr = std::shared_ptr<TenantRecord>;

  struct MappedSegment {
    SegmentRecord segment;
    uint32_t first_block = 0;
    uint32_t blocks = 0;
  };

  // Starts to listen for lifelines in options.run_dir. `epoch` is above that of every arbiter before in that directory.
  static absl::StatusOr<std::unique_ptr<Arbiter>> Start(const ArbiterOptions& options, uint32_t epoch, Device& device,
                                                        const Clock& clock, ArbiterMetrics& metrics);
  ~Arbiter() override;
  // Ends all streams, so that the server can drain.
  void CloseStreams();

  // The live tenant with this session key; UNAUTHENTICATED otherwise.
  absl::StatusOr<TenantPtr> Authenticate(const std::string& key);

  // ---- streams (arbiter_tenants.cc)
  std::shared_ptr<Outbox> OpenStream(TenantRecord& tenant);
  void CloseStream(TenantRecord& tenant, const std::shared_ptr<Outbox>& outbox);
  void Heartbeat(TenantRecord& tenant, uint64_t progress);

  // ---- turns (arbiter_turns.cc)
  void RequestTurn(TenantRecord& tenant, uint64_t request_id);
  void WithdrawRequest(TenantRecord& tenant, uint64_t request_id);
  // Refusals are YieldRefused events.
  void Yield(TenantRecord& tenant, Token token, const std::vector<SegmentId>& keep);

  // ---- memory (arbiter_memory.cc); those with a deadline wait for tenants or for copies
  absl::StatusOr<SegmentRecord> CreateSegment(TenantRecord& tenant, const SegmentSpec& spec, absl::Time deadline);
  absl::Status ReleaseSegment(TenantRecord& tenant, SegmentId id);
  absl::StatusOr<MappedSegment> MapSegment(TenantRecord& tenant, SegmentId id, absl::Time deadline);
  void UnmapDone(TenantRecord& tenant, SegmentId id);
  void RemapDone(TenantRecord& tenant, uint64_t remap_id);

  // ---- sets (arbiter_sets.cc)
  absl::StatusOr<SetRecord> CreateSet(TenantRecord& tenant, SetRecord set);
  absl::Status RetireSet(TenantRecord& tenant, SetId id);
  absl::Status BeginWrite(TenantRecord& tenant, Token token, SetId id);
  absl::StatusOr<uint64_t> Commit(TenantRecord& tenant, Token token, SetId id, const std::string& note);

  // ---- report (arbiter_report.cc)
  ArbiterReport Report();

 private:
  Arbiter(const ArbiterOptions& options, uint32_t epoch, Device& device, const Clock& clock, ArbiterMetrics& metrics);

  // LifelineLoop::Delegate
  absl::StatusOr<LifelineLoop::Admitted> Admit(UniqueFd socket, const lifeline::Hello& hello) override;
  void OnMessage(SessionId session, const lifeline::Message& message) override;
  bool OnLifelineClosed(SessionId session) override;
  void OnExit(SessionId session) override;
  absl::Duration Tick() override;

  // Everything below is called with the mutex held.
  TenantPtr Find(SessionId session) const;
  absl::Status CheckAlive(const TenantRecord& tenant) const;
  void Send(TenantRecord& tenant, Event event);
  void Broadcast(const Event& event);
  void BroadcastSet(const SetRecord& set, bool with_manifest);

  absl::Status CheckName(const std::string& name) const;
  absl::StatusOr<TenantPtr> MakeTenant(UniqueFd& socket, const lifeline::Hello& hello) const;
  StateEvent StateOf(const TenantRecord& tenant) const;
  void BeginDying(TenantRecord& tenant, const char* sign);
  void FinishDying(const TenantPtr& tenant);
  void Kill(TenantRecord& tenant, const std::string& reason);
  void EnforceEnds(absl::Duration now);
  std::string BlockedBy() const;

  // Decides and acts until there is nothing to do; returns when to decide again at the latest.
  absl::Duration Decide();
  // The same from outside the loop: wakes it if it would sleep too long.
  void Pump();
  TurnSnapshot Snapshot() const;
  void Act(const TurnDecision& decision);
  void StartMoves(SessionId session);
  void Grant();
  void EndTurn(TenantRecord& tenant, const char* how);

  void Enqueue(const std::vector<Move>& moves, std::function<void()> done);
  void FinishMoves(const std::vector<Move>& moves);
  absl::Status ReserveHostMemory(const SegmentRecord& segment);
  // Waits until `ready` holds; an error when the tenant dies or the deadline passes.
  absl::Status Await(const TenantRecord& tenant, absl::Time deadline, const std::function<bool()>& ready,
                     const std::function<std::string()>& waits_for);
  // Makes every other tenant give up writable maps of `range`, and waits for it.
  absl::Status DemandRemaps(const TenantRecord& maker, ByteRange range, absl::Time deadline);
  std::string WritersOf(ByteRange range, SessionId except) const;
  // The holder made a private segment: evicts what others keep there, and waits for it.
  absl::Status ClaimForHolder(const TenantRecord& tenant, absl::Time deadline);
  absl::Status SendBlocks(TenantRecord& tenant, const std::vector<uint32_t>& blocks, BlockAccess access,
                          absl::Time deadline);  // without the mutex
  void EndSegment(SegmentId id);
  void ForgetReader(SegmentId id, SessionId session);
  void RemoveSegment(SegmentId id);
  void EndSet(SetId id);
  std::vector<uint32_t> BlocksOf(ByteRange range) const;

  const ArbiterOptions options_;
  const TurnLimits limits_;
  Device& device_;
  const Clock& clock_;
  ArbiterMetrics& metrics_;
  const absl::Duration started_;

  Mutex mutex_;
  CondVar changed_;  // acknowledgements, copies and ends of tenants

  TurnMachine turns_ ABSL_GUARDED_BY(mutex_);
  PoolLedger ledger_ ABSL_GUARDED_BY(mutex_);
  SetRegistry sets_ ABSL_GUARDED_BY(mutex_);
  std::map<SessionId, TenantPtr> tenants_ ABSL_GUARDED_BY(mutex_);
  std::map<SegmentId, std::set<SessionId>> readers_ ABSL_GUARDED_BY(mutex_);  // of shared segments, not their owners
  std::map<SegmentId, std::shared_ptr<HostBuffer>> buffers_ ABSL_GUARDED_BY(mutex_);
  SessionId last_session_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_remap_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_batch_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t moving_ ABSL_GUARDED_BY(mutex_) = 0;  // batches with the mover
  bool soft_warned_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Duration loop_wakes_at_ ABSL_GUARDED_BY(mutex_);
  absl::Duration metrics_set_at_ ABSL_GUARDED_BY(mutex_);
  uint64_t turns_total_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t evicted_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t restored_bytes_ ABSL_GUARDED_BY(mutex_) = 0;

  // Last, so that they end first: both call back.
  std::unique_ptr<Mover> mover_;
  std::unique_ptr<LifelineLoop> loop_;
};

}  // namespace tandem::arbiter
