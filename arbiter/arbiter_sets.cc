// Sets and versions: see arbiter.h.

#include <utility>

#include "arbiter/arbiter.h"
#include "common/base/log.h"
#include "common/base/status.h"

namespace tandem::arbiter {

absl::StatusOr<SetRecord> Arbiter::CreateSet(TenantRecord& tenant, SetRecord set) {
  MutexLock lock(mutex_);
  TANDEM_RETURN_IF_ERROR(CheckAlive(tenant));
  const auto check_own = [&](SegmentId id, SegmentKind kind) -> absl::Status {
    const SegmentRecord* segment = ledger_.Find(id);
    if (segment != nullptr && segment->owner == tenant.id && !segment->quarantined && segment->spec.kind == kind) {
      return absl::OkStatus();
    }
    return absl::NotFoundError(absl::StrCat("segment ", id, " is not an own ",
                                            kind == SegmentKind::kShared ? "shared" : "private", " segment"));
  };
  TANDEM_RETURN_IF_ERROR(check_own(set.shared_segment, SegmentKind::kShared));
  for (const SegmentId id : set.private_segments) TANDEM_RETURN_IF_ERROR(check_own(id, SegmentKind::kPrivate));
  set.owner = tenant.id;
  set.tenant = tenant.name;
  TANDEM_ASSIGN_OR_RETURN(const SetId id, sets_.Create(std::move(set)));
  const SetRecord& made = *sets_.Find(id);
  LOG_INFO("set made id={} name={} tenant={}", id, made.name, made.tenant);
  BroadcastSet(made, /*with_manifest=*/true);
  return made;
}

absl::Status Arbiter::RetireSet(TenantRecord& tenant, SetId id) {
  MutexLock lock(mutex_);
  TANDEM_RETURN_IF_ERROR(CheckAlive(tenant));
  TANDEM_RETURN_IF_ERROR(sets_.CheckRetire(tenant.id, id));
  const SegmentId shared = sets_.Find(id)->shared_segment;
  EndSet(id);
  EndSegment(shared);
  Pump();
  return absl::OkStatus();
}

void Arbiter::EndSet(SetId id) {
  const SetRecord ended = sets_.Remove(id);
  LOG_INFO("set retired id={} name={} tenant={} version={}", id, ended.name, ended.tenant, ended.version);
  BroadcastSet(ended, /*with_manifest=*/false);
}

absl::Status Arbiter::BeginWrite(TenantRecord& tenant, Token token, SetId id) {
  MutexLock lock(mutex_);
  TANDEM_RETURN_IF_ERROR(CheckAlive(tenant));
  TANDEM_RETURN_IF_ERROR(turns_.CheckToken(tenant.id, token));
  return sets_.BeginWrite(tenant.id, id);
}

absl::StatusOr<uint64_t> Arbiter::Commit(TenantRecord& tenant, Token token, SetId id, const std::string& note) {
  MutexLock lock(mutex_);
  TANDEM_RETURN_IF_ERROR(CheckAlive(tenant));
  TANDEM_RETURN_IF_ERROR(turns_.CheckToken(tenant.id, token));
  TANDEM_ASSIGN_OR_RETURN(const uint64_t version, sets_.Commit(tenant.id, id, note));
  const SetRecord& set = *sets_.Find(id);
  LOG_INFO("set committed id={} name={} version={} token={}", id, set.name, version, token);
  BroadcastSet(set, /*with_manifest=*/false);
  return version;
}

}  // namespace tandem::arbiter
