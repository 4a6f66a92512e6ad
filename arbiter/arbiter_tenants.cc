// Who is let in, streams, and the proof of a tenant's end: see arbiter.h.
//
// A tenant's end has signs (its lifeline closed, its process exited, it was killed) and a proof (lifeline closed *and*
// process exited; or it said Goodbye and its maps are gone). At the first sign it loses its turn and its segments are
// quarantined; only the proof frees them.

#include <sys/random.h>

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "arbiter/arbiter.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/status.h"

namespace tandem::arbiter {
namespace {

absl::StatusOr<std::string> NewSessionKey() {
  char bytes[16];
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) return ErrnoStatus(errno, "cannot draw", "a session key");
  return absl::BytesToHexString(absl::string_view(bytes, sizeof bytes));
}

bool IsTenantName(const std::string& name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
  });
}

}  // namespace

absl::Status Arbiter::CheckName(const std::string& name) const {
  for (const auto& [id, tenant] : tenants_) {
    if (tenant->name == name && !tenant->dying && !tenant->peer.HasExited()) {
      return absl::AlreadyExistsError(absl::StrCat("tenant '", name, "' is attached already as pid ",
                                                   tenant->peer.pid(), "; stop it or use another name"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Arbiter::TenantPtr> Arbiter::MakeTenant(UniqueFd& socket, const lifeline::Hello& hello) const {
  if (hello.protocol != lifeline::kProtocolVersion) {
    return absl::FailedPreconditionError(absl::StrCat("the tenant speaks lifeline protocol ", hello.protocol,
                                                      ", the arbiter ", lifeline::kProtocolVersion,
                                                      "; install the same version of both"));
  }
  if (!IsTenantName(hello.tenant)) {
    return absl::InvalidArgumentError("tenant: a name of 1 to 64 letters, digits, '-', '_' or '.' is needed");
  }
  TANDEM_RETURN_IF_ERROR(CheckName(hello.tenant));
  TANDEM_ASSIGN_OR_RETURN(lifeline::Peer peer,
                          lifeline::Peer::Of(socket.get(), hello.start_time_ticks, options_.pidfd_source));
  if (!options_.allow_unkillable) TANDEM_RETURN_IF_ERROR(peer.CheckMaySignal());
  TANDEM_ASSIGN_OR_RETURN(std::string key, NewSessionKey());
  auto tenant = std::make_shared<TenantRecord>(last_session_ + 1, std::move(peer), std::move(socket));
  tenant->key = std::move(key);
  tenant->name = hello.tenant;
  tenant->socket_inode = hello.socket_inode;
  tenant->longest_unit =
      absl::Milliseconds(std::clamp<int64_t>(hello.longest_unit_ms, 1, options_.longest_unit_cap_ms));
  tenant->mapped.assign(device_.blocks(), 0);
  tenant->last_progress = clock_.Now();
  tenant->stream_lost_since = clock_.Now();
  return tenant;
}

absl::StatusOr<LifelineLoop::Admitted> Arbiter::Admit(UniqueFd socket, const lifeline::Hello& hello) {
  MutexLock lock(mutex_);
  absl::StatusOr<TenantPtr> made = MakeTenant(socket, hello);
  if (!made.ok()) {
    LOG_WARN("a tenant was refused: {}", made.status().ToString());
    const lifeline::Refused refused{static_cast<int32_t>(made.status().code()), std::string(made.status().message())};
    // A fresh socket takes this without waiting; if it is gone there is nobody to tell.
    lifeline::Send(socket.get(), refused, {}, absl::ZeroDuration()).IgnoreError();
    return made.status();
  }
  TenantRecord& tenant = **made;
  const lifeline::Welcome welcome{.session_key = tenant.key,
                                  .block_bytes = device_.block_bytes(),
                                  .blocks = device_.blocks(),
                                  .heartbeat_ms = static_cast<uint32_t>(options_.heartbeat_ms)};
  TANDEM_RETURN_IF_ERROR(lifeline::Send(tenant.lifeline.get(), welcome, {}, absl::ZeroDuration()));
  last_session_ = tenant.id;
  tenants_[tenant.id] = *made;
  LOG_INFO("tenant={} attached pid={} longest_unit_ms={}", tenant.name, tenant.peer.pid(),
           absl::ToInt64Milliseconds(tenant.longest_unit));
  return LifelineLoop::Admitted{tenant.id, tenant.lifeline.get(), tenant.peer.pidfd()};
}

absl::StatusOr<Arbiter::TenantPtr> Arbiter::Authenticate(const std::string& key) {
  MutexLock lock(mutex_);
  for (const auto& [id, tenant] : tenants_) {
    if (tenant->key == key && !tenant->dying) return tenant;
  }
  return absl::UnauthenticatedError("no live session has this key; connect a lifeline first");
}

StateEvent Arbiter::StateOf(const TenantRecord& tenant) const {
  StateEvent state;
  state.tenant = tenant.name;
  if (turns_.Holds(tenant.id)) {
    state.held_token = turns_.token();
    state.lost_segments = tenant.lost_at_grant;
    if (turns_.phase() == TurnPhase::kRevoking) {
      state.revoke_ms_left = std::max<int64_t>(0, absl::ToInt64Milliseconds(turns_.hard_at() - clock_.Now()));
    }
  }
  if (const TurnMachine::Waiter* waiter = turns_.FindWaiter(tenant.id)) state.pending_request_id = waiter->request_id;
  if (turns_.phase() == TurnPhase::kSwitching && turns_.current() == tenant.id) {
    state.pending_request_id = turns_.current_request().request_id;
  }
  state.last_answered_request_id = tenant.last_answered_request_id;
  for (const SegmentId id : ledger_.SegmentsOf(tenant.id)) state.segments.push_back(*ledger_.Find(id));
  for (const auto& [id, set] : sets_.sets()) state.sets.push_back(set);
  state.unmap_segments.assign(tenant.unmap_pending.begin(), tenant.unmap_pending.end());
  state.heartbeat_ms = static_cast<uint32_t>(options_.heartbeat_ms);
  state.arena_bytes = device_.arena_bytes();
  state.block_bytes = device_.block_bytes();
  return state;
}

std::shared_ptr<Outbox> Arbiter::OpenStream(TenantRecord& tenant) {
  MutexLock lock(mutex_);
  auto outbox = std::make_shared<Outbox>();
  if (stopping_ || tenant.dying) {
    outbox->Close();
    return outbox;
  }
  if (tenant.outbox != nullptr) tenant.outbox->Close();  // the newest wins
  tenant.outbox = outbox;
  tenant.stream_lost_since.reset();
  Send(tenant, StateOf(tenant));
  for (const auto& [remap_id, range] : tenant.remap_pending) Send(tenant, RemapEvent{remap_id, range});
  Pump();
  return outbox;
}

void Arbiter::CloseStream(TenantRecord& tenant, const std::shared_ptr<Outbox>& outbox) {
  outbox->Close();
  MutexLock lock(mutex_);
  if (tenant.outbox != outbox) return;  // a newer one is open
  tenant.outbox.reset();
  tenant.stream_lost_since = clock_.Now();
  Pump();
}

void Arbiter::Heartbeat(TenantRecord& tenant, uint64_t progress) {
  MutexLock lock(mutex_);
  if (progress == tenant.progress) return;
  tenant.progress = progress;
  tenant.last_progress = clock_.Now();
}

void Arbiter::OnMessage(SessionId session, const lifeline::Message& message) {
  MutexLock lock(mutex_);
  const TenantPtr tenant = Find(session);
  if (tenant == nullptr) return;
  if (const auto* ack = std::get_if<lifeline::BlocksAck>(&message)) {
    const auto batch = tenant->batches.find(ack->batch);
    if (batch != tenant->batches.end()) batch->second = ack->error;
    changed_.NotifyAll();
  } else if (std::holds_alternative<lifeline::Goodbye>(message)) {
    const auto mapped = device_.MappedBlocks(tenant->peer.pid(), BlocksOf({0, device_.arena_bytes()}), false);
    tenant->detached = mapped.ok() && mapped->empty();
    if (!tenant->detached) LOG_WARN("tenant={} said Goodbye but still maps the pool", tenant->name);
  }
}

bool Arbiter::OnLifelineClosed(SessionId session) {
  MutexLock lock(mutex_);
  const TenantPtr tenant = Find(session);
  if (tenant == nullptr) return true;
  tenant->lifeline_closed = true;
  BeginDying(*tenant, tenant->detached ? "goodbye" : "lifeline closed");
  if (tenant->stopped()) FinishDying(tenant);
  Pump();
  return tenant->detached;
}

void Arbiter::OnExit(SessionId session) {
  MutexLock lock(mutex_);
  const TenantPtr tenant = Find(session);
  if (tenant == nullptr) return;
  tenant->exited = true;
  BeginDying(*tenant, "process exited");
  if (tenant->lifeline_closed) {
    FinishDying(tenant);
  } else if (turns_.phase() == TurnPhase::kLost && turns_.current() == tenant->id) {
    turns_.ProveHolderGone();  // nothing of it runs; its bytes stay quarantined until its lifeline ends
    LOG_WARN("tenant={} pid={} exited but its lifeline is open, held by pids {}: its bytes are quarantined",
             tenant->name, tenant->peer.pid(), absl::StrJoin(HoldersOfSocket(tenant->socket_inode), ","));
  }
  Pump();
}

void Arbiter::BeginDying(TenantRecord& tenant, const char* sign) {
  if (tenant.dying) return;
  tenant.dying = true;
  tenant.dying_since = clock_.Now();
  LOG_INFO("tenant={} pid={} ends: {}", tenant.name, tenant.peer.pid(), sign);
  if (tenant.outbox != nullptr) tenant.outbox->Close();
  for (const SetId id : sets_.Tear(tenant.id)) BroadcastSet(*sets_.Find(id), /*with_manifest=*/false);
  if (turns_.Holds(tenant.id)) {
    EndTurn(tenant, "lost");
    turns_.LoseHolder();
  } else if (turns_.phase() == TurnPhase::kSwitching && turns_.current() == tenant.id) {
    turns_.CancelSwitch();
  }
  turns_.Forget(tenant.id);
  for (const SegmentId id : ledger_.SegmentsOf(tenant.id)) ledger_.Quarantine(id);
  changed_.NotifyAll();
}

void Arbiter::FinishDying(const TenantPtr& tenant) {
  for (const SetId id : sets_.SetsOf(tenant->id)) EndSet(id);
  for (const SegmentId id : ledger_.SegmentsOf(tenant->id)) EndSegment(id);
  if (turns_.phase() == TurnPhase::kLost && turns_.current() == tenant->id) turns_.ProveHolderGone();
  tenants_.erase(tenant->id);
  std::vector<SegmentId> read;
  for (const auto& [id, sessions] : readers_) {
    if (sessions.contains(tenant->id)) read.push_back(id);
  }
  for (const SegmentId id : read) ForgetReader(id, tenant->id);
  metrics_.OnTenantGone(tenant->name);
  LOG_INFO("tenant={} pid={} is gone, its memory is free", tenant->name, tenant->peer.pid());
  changed_.NotifyAll();
}

void Arbiter::Kill(TenantRecord& tenant, const std::string& reason) {
  LOG_WARN("tenant={} pid={} is killed: {}", tenant.name, tenant.peer.pid(), reason);
  metrics_.OnKill(tenant.name, reason);
  BeginDying(tenant, "killed");
  tenant.kill_sent = true;
  tenant.dying_since = clock_.Now();
  const absl::Status killed = tenant.peer.Kill();
  if (!killed.ok()) LOG_ERROR("{}", killed.ToString());
}

void Arbiter::EnforceEnds(absl::Duration now) {
  for (const auto& [id, tenant] : tenants_) {
    if (!tenant->dying || tenant->stopped()) continue;
    if (!tenant->kill_sent && now >= tenant->dying_since + limits_.reattach) {
      Kill(*tenant, "its lifeline is closed but its process lives");
    } else if (tenant->kill_sent && !tenant->late_proof_logged &&
               now >= tenant->dying_since + absl::Milliseconds(options_.proof_ms)) {
      tenant->late_proof_logged = true;
      LOG_ERROR("tenant={} pid={} was killed but has not exited: no turn is granted until it has", tenant->name,
                tenant->peer.pid());
    }
  }
}

std::string Arbiter::BlockedBy() const {
  for (const auto& [id, tenant] : tenants_) {
    if (tenant->dying && !tenant->stopped()) {
      return absl::StrCat("the end of tenant '", tenant->name, "' (pid ", tenant->peer.pid(), ") is not proved");
    }
  }
  return "";
}

}  // namespace tandem::arbiter
