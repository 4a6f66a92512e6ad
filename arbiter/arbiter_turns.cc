// Requests, grants, yields and revokes: see arbiter.h. What happens when is decided by state/turn_policy.

#include <utility>

#include "arbiter/arbiter.h"
#include "common/base/log.h"
#include "common/base/status.h"

namespace tandem::arbiter {

void Arbiter::RequestTurn(TenantRecord& tenant, uint64_t request_id) {
  MutexLock lock(mutex_);
  if (tenant.dying || request_id <= tenant.last_answered_request_id) return;  // a repetition after a broken stream
  const absl::Status queued = turns_.Request(tenant.id, request_id, clock_.Now());
  if (!queued.ok()) {
    LOG_DEBUG("request {} of tenant={} is not queued: {}", request_id, tenant.name, queued.ToString());
    return;
  }
  Pump();
}

void Arbiter::WithdrawRequest(TenantRecord& tenant, uint64_t request_id) {
  MutexLock lock(mutex_);
  const bool switching = turns_.phase() == TurnPhase::kSwitching && turns_.current() == tenant.id &&
                         turns_.current_request().request_id == request_id;
  if (switching) {
    turns_.CancelSwitch();
  } else if (!turns_.Withdraw(tenant.id, request_id)) {
    return;  // granted already: the tenant yields when it sees the grant
  }
  tenant.last_answered_request_id = request_id;
  Pump();
}

void Arbiter::Yield(TenantRecord& tenant, Token token, const std::vector<SegmentId>& keep) {
  MutexLock lock(mutex_);
  absl::Status allowed = turns_.CheckToken(tenant.id, token);
  if (allowed.ok()) allowed = ledger_.CheckKeep(tenant.id, keep);
  const std::optional<SetId> window = sets_.WindowOf(tenant.id);
  if (allowed.ok() && window) {
    allowed =
        absl::FailedPreconditionError(absl::StrCat("the write window of set ", *window, " is open; commit first"));
  }
  if (!allowed.ok()) {
    LOG_WARN("yield refused token={} tenant={}: {}", token, tenant.name, allowed.ToString());
    Send(tenant, YieldRefusedEvent{token, std::string(allowed.message())});
    return;
  }
  EndTurn(tenant, "yield");
  ledger_.Keep(tenant.id, keep);
  const absl::Status yielded = turns_.Yield(tenant.id, token);
  TANDEM_CHECK(yielded.ok(), yielded.ToString());
  Pump();
}

TurnSnapshot Arbiter::Snapshot() const {
  TurnSnapshot snapshot;
  snapshot.now = clock_.Now();
  snapshot.phase = turns_.phase();
  for (const TurnMachine::Waiter& waiter : turns_.waiters()) {
    const TenantPtr tenant = Find(waiter.session);
    const bool reachable = tenant->outbox != nullptr && !tenant->outbox->closed();
    snapshot.waiters.push_back({waiter.session, reachable && !ledger_.TouchesQuarantine(waiter.session)});
  }
  snapshot.blocked = !BlockedBy().empty();
  snapshot.mover_busy = moving_ > 0;
  snapshot.held_since = turns_.held_since();
  snapshot.soft_at = turns_.soft_at();
  snapshot.hard_at = turns_.hard_at();
  snapshot.soft_warned = soft_warned_;
  if (const TenantPtr holder = Find(turns_.current())) {
    snapshot.last_progress = holder->last_progress;
    snapshot.stream_lost_since = holder->stream_lost_since;
    snapshot.longest_unit = holder->longest_unit;
  }
  return snapshot;
}

void Arbiter::Act(const TurnDecision& decision) {
  const TenantPtr holder = Find(turns_.current());
  const absl::Duration now = clock_.Now();
  switch (decision.action) {
    case TurnAction::kNone:
      return;
    case TurnAction::kStartSwitch:
      turns_.StartSwitch(decision.session);
      StartMoves(decision.session);
      return;
    case TurnAction::kRevoke: {
      const absl::Duration hard = limits_.HardLimit(holder->longest_unit);
      turns_.Revoke(now + limits_.SoftLimit(holder->longest_unit), now + hard);
      LOG_INFO("turn revoked token={} tenant={} reason={} hard_ms={}", turns_.token(), holder->name, decision.reason,
               absl::ToInt64Milliseconds(hard));
      Send(*holder, RevokeEvent{turns_.token(), static_cast<uint32_t>(absl::ToInt64Milliseconds(hard))});
      return;
    }
    case TurnAction::kWarnSoft:
      soft_warned_ = true;
      LOG_WARN("turn not yielded by its soft deadline token={} tenant={}, killed in {} ms", turns_.token(),
               holder->name, absl::ToInt64Milliseconds(turns_.hard_at() - now));
      return;
    case TurnAction::kKill:
      Kill(*holder, decision.reason);
      return;
  }
}

void Arbiter::StartMoves(SessionId session) {
  const std::vector<Move> moves = ledger_.PlanGrant(session);
  if (moves.empty()) {
    Grant();
    return;
  }
  Enqueue(moves, [this, session, moves] {
    // On the mover's thread, mutex held. What was made or kept meanwhile is planned again.
    if (turns_.phase() == TurnPhase::kSwitching && turns_.current() == session) StartMoves(session);
    Pump();
  });
}

void Arbiter::Grant() {
  const TenantPtr tenant = Find(turns_.current());
  const TurnMachine::Waiter request = turns_.current_request();
  const absl::Duration now = clock_.Now();
  const Token token = turns_.FinishSwitch(now);
  soft_warned_ = false;
  tenant->last_answered_request_id = request.request_id;
  tenant->lost_at_grant = ledger_.Lost(tenant->id);
  tenant->last_progress = now;
  tenant->waited += now - request.since;
  ++tenant->turns;
  ++turns_total_;
  LOG_INFO("turn granted token={} tenant={} waited_ms={:.3f}", token, tenant->name,
           absl::ToDoubleMilliseconds(now - request.since));
  GrantEvent grant{request.request_id, token, {}, tenant->lost_at_grant};
  for (const auto& [id, set] : sets_.sets()) {
    grant.sets.push_back(set);
    grant.sets.back().manifest.clear();
  }
  Send(*tenant, std::move(grant));
  metrics_.OnGrant(tenant->name, now - request.since, token);
}

void Arbiter::EndTurn(TenantRecord& tenant, const char* how) {
  const absl::Duration held = clock_.Now() - turns_.held_since();
  tenant.held += held;
  LOG_INFO("turn ended token={} tenant={} how={} held_ms={:.3f}", turns_.token(), tenant.name, how,
           absl::ToDoubleMilliseconds(held));
  metrics_.OnTurnEnd(tenant.name, held);
}

}  // namespace tandem::arbiter
