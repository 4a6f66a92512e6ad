#include "arbiter/arbiter.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "common/base/status.h"

namespace tandem::arbiter {
namespace {

constexpr absl::Duration kMetricsPeriod = absl::Milliseconds(200);
constexpr absl::Duration kDyingPoll = absl::Milliseconds(20);

}  // namespace

absl::StatusOr<std::unique_ptr<Arbiter>> Arbiter::Start(const ArbiterOptions& options, uint32_t epoch, Device& device,
                                                        const Clock& clock, ArbiterMetrics& metrics) {
  std::unique_ptr<Arbiter> arbiter(new Arbiter(options, epoch, device, clock, metrics));
  arbiter->mover_ = std::make_unique<Mover>(device);
  MutexLock lock(arbiter->mutex_);  // the loop's first tick waits until loop_ is set
  TANDEM_ASSIGN_OR_RETURN(arbiter->loop_, LifelineLoop::Start(options.run_dir + "/lifeline.sock", *arbiter));
  return arbiter;
}

Arbiter::Arbiter(const ArbiterOptions& options, uint32_t epoch, Device& device, const Clock& clock,
                 ArbiterMetrics& metrics)
    : options_(options),
      limits_(options.Limits()),
      device_(device),
      clock_(clock),
      metrics_(metrics),
      started_(clock.Now()),
      turns_(epoch),
      ledger_(device.arena_bytes(), device.block_bytes(), options.host_bytes) {}

Arbiter::~Arbiter() {
  CloseStreams();
  loop_.reset();
  mover_.reset();
}

void Arbiter::CloseStreams() {
  MutexLock lock(mutex_);
  stopping_ = true;
  for (const auto& [id, tenant] : tenants_) {
    if (tenant->outbox != nullptr) tenant->outbox->Close();
  }
  changed_.NotifyAll();
}

absl::Duration Arbiter::Tick() {
  MutexLock lock(mutex_);
  const absl::Duration now = clock_.Now();
  EnforceEnds(now);
  if (now >= metrics_set_at_ + kMetricsPeriod) {
    metrics_set_at_ = now;
    metrics_.SetPool(ledger_);
    metrics_.SetBlocked(!BlockedBy().empty());
  }
  loop_wakes_at_ = now + std::min(Decide(), absl::Seconds(1));
  for (const auto& [id, tenant] : tenants_) {
    if (tenant->dying) loop_wakes_at_ = std::min(loop_wakes_at_, now + kDyingPoll);
  }
  return loop_wakes_at_ - now;
}

absl::Duration Arbiter::Decide() {
  absl::Duration wake_after = absl::Seconds(1);
  while (!stopping_) {
    const TurnDecision decision = DecideTurn(Snapshot(), limits_);
    if (decision.action == TurnAction::kNone) {
      wake_after = decision.wake_after;
      break;
    }
    Act(decision);
  }
  ledger_.CheckInvariants();
  turns_.CheckInvariants();
  return wake_after;
}

void Arbiter::Pump() {
  const absl::Duration wake_at = clock_.Now() + Decide();
  if (stopping_ || wake_at >= loop_wakes_at_) return;
  loop_wakes_at_ = wake_at;
  loop_->Wake();
}

Arbiter::TenantPtr Arbiter::Find(SessionId session) const {
  const auto found = tenants_.find(session);
  return found == tenants_.end() ? nullptr : found->second;
}

absl::Status Arbiter::CheckAlive(const TenantRecord& tenant) const {
  if (stopping_) return absl::UnavailableError("the arbiter is stopping");
  if (!tenant.dying) return absl::OkStatus();
  return absl::UnauthenticatedError(absl::StrCat("the session of tenant '", tenant.name, "' is over; connect again"));
}

void Arbiter::Send(TenantRecord& tenant, Event event) {
  if (tenant.outbox == nullptr) return;  // the next stream begins with the whole state
  if (!tenant.outbox->Push(std::move(event))) {
    LOG_WARN("stream of tenant={} is too far behind and was broken", tenant.name);
  }
}

void Arbiter::Broadcast(const Event& event) {
  for (const auto& [id, tenant] : tenants_) {
    if (!tenant->dying) Send(*tenant, event);
  }
}

void Arbiter::BroadcastSet(const SetRecord& set, bool with_manifest) {
  SetChangedEvent event{set};
  if (!with_manifest) event.set.manifest.clear();
  Broadcast(event);
}

}  // namespace tandem::arbiter
