// Segments, maps, moves and the acknowledgements of tenants: see arbiter.h.

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "arbiter/arbiter.h"
#include "common/base/log.h"
#include "common/base/status.h"

namespace tandem::arbiter {
namespace {

constexpr uint8_t kReadWrite = static_cast<uint8_t>(BlockAccess::kReadWrite);

}  // namespace

std::vector<uint32_t> Arbiter::BlocksOf(ByteRange range) const {
  std::vector<uint32_t> blocks;
  for (uint64_t block = range.begin / device_.block_bytes(); block * device_.block_bytes() < range.end; ++block) {
    blocks.push_back(static_cast<uint32_t>(block));
  }
  return blocks;
}

absl::Status Arbiter::Await(const TenantRecord& tenant, absl::Time deadline, const std::function<bool()>& ready,
                            const std::function<std::string()>& waits_for) {
  while (true) {
    TANDEM_RETURN_IF_ERROR(CheckAlive(tenant));
    if (ready()) return absl::OkStatus();
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return absl::DeadlineExceededError(absl::StrCat("waited for ", waits_for()));
    changed_.WaitFor(mutex_, left);
  }
}

absl::StatusOr<SegmentRecord> Arbiter::CreateSegment(TenantRecord& tenant, const SegmentSpec& spec,
                                                     absl::Time deadline) {
  MutexLock lock(mutex_);
  TANDEM_RETURN_IF_ERROR(CheckAlive(tenant));
  TANDEM_ASSIGN_OR_RETURN(const SegmentId id, ledger_.Create(tenant.id, tenant.name, spec));
  SegmentRecord segment = *ledger_.Find(id);
  absl::Status made;
  if (segment.spec.kind == SegmentKind::kShared) {
    made = DemandRemaps(tenant, segment.range, deadline);
  } else {
    made = ReserveHostMemory(segment);
    if (made.ok() && turns_.Holds(tenant.id)) made = ClaimForHolder(tenant, deadline);
  }
  const SegmentRecord* now = ledger_.Find(id);
  if (!made.ok()) {
    if (now != nullptr && !now->quarantined) RemoveSegment(id);
    return made;
  }
  LOG_INFO("segment made id={} tenant={} name={} kind={} offset={} bytes={}", id, tenant.name, spec.name,
           spec.kind == SegmentKind::kShared ? "shared" : "private", segment.range.begin, segment.range.bytes());
  Pump();
  return segment;
}

absl::Status Arbiter::ReserveHostMemory(const SegmentRecord& segment) {
  if (!segment.has_host_memory()) return absl::OkStatus();
  TANDEM_ASSIGN_OR_RETURN(HostBuffer buffer, HostBuffer::Reserve(segment.range.bytes()));
  buffers_[segment.id] = std::make_shared<HostBuffer>(std::move(buffer));
  mover_->Touch(buffers_[segment.id]);
  return absl::OkStatus();
}

std::string Arbiter::WritersOf(ByteRange range, SessionId except) const {
  std::vector<std::string> names;
  for (const auto& [id, tenant] : tenants_) {
    if (id == except) continue;
    for (const uint32_t block : BlocksOf(range)) {
      if (tenant->mapped[block] != kReadWrite) continue;
      names.push_back(tenant->name);
      break;
    }
  }
  return absl::StrJoin(names, ", ");
}

absl::Status Arbiter::DemandRemaps(const TenantRecord& maker, ByteRange range, absl::Time deadline) {
  const std::vector<uint32_t> blocks = BlocksOf(range);
  for (const auto& entry : tenants_) {
    TenantRecord& tenant = *entry.second;
    const bool writes =
        std::any_of(blocks.begin(), blocks.end(), [&](uint32_t block) { return tenant.mapped[block] == kReadWrite; });
    if (tenant.id == maker.id || !writes) continue;
    const uint64_t remap_id = ++last_remap_;
    tenant.remap_pending[remap_id] = range;
    Send(tenant, RemapEvent{remap_id, range});
  }
  return Await(
      maker, deadline, [&] { return WritersOf(range, maker.id).empty(); },
      [&] {
        return absl::StrCat("tenants that still map blocks of the new shared segment writable: ",
                            WritersOf(range, maker.id));
      });
}

absl::Status Arbiter::ClaimForHolder(const TenantRecord& tenant, absl::Time deadline) {
  const std::vector<Move> moves = ledger_.PlanGrant(tenant.id);
  if (moves.empty()) return absl::OkStatus();
  auto finished = std::make_shared<bool>(false);
  Enqueue(moves, [this, finished] {
    *finished = true;
    Pump();
  });
  return Await(
      tenant, deadline, [&] { return *finished; },
      [] { return std::string("kept bytes of other tenants to be evicted"); });
}

void Arbiter::Enqueue(const std::vector<Move>& moves, std::function<void()> done) {
  std::vector<Copy> copies;
  for (const Move& move : moves) {
    const SegmentRecord* segment = ledger_.Find(move.segment);
    copies.push_back({.to_host = move.evict,
                      .arena_offset = move.range.begin,
                      .bytes = move.range.bytes(),
                      .buffer_offset = move.range.begin - segment->range.begin,
                      .buffer = buffers_.at(move.segment)});
  }
  ++moving_;
  mover_->Enqueue(std::move(copies), [this, moves, done = std::move(done)] {
    MutexLock lock(mutex_);
    --moving_;
    FinishMoves(moves);
    done();
    changed_.NotifyAll();
  });
}

void Arbiter::FinishMoves(const std::vector<Move>& moves) {
  for (const Move& move : moves) {
    ledger_.FinishMove(move);
    (move.evict ? evicted_bytes_ : restored_bytes_) += move.range.bytes();
    const SegmentRecord* segment = ledger_.Find(move.segment);
    if (segment == nullptr) continue;
    metrics_.OnMove(segment->tenant, move.evict, move.range.bytes());
    LOG_INFO("{} {} bytes of segment '{}' tenant={}", move.evict ? "evicted" : "restored", move.range.bytes(),
             segment->spec.name, segment->tenant);
  }
}

absl::Status Arbiter::ReleaseSegment(TenantRecord& tenant, SegmentId id) {
  MutexLock lock(mutex_);
  TANDEM_RETURN_IF_ERROR(CheckAlive(tenant));
  const SegmentRecord* segment = ledger_.Find(id);
  if (segment == nullptr || segment->owner != tenant.id || segment->quarantined) {
    return absl::NotFoundError(absl::StrCat("segment ", id, " is not one of tenant '", tenant.name, "'"));
  }
  if (const std::optional<SetId> set = sets_.SetOfSegment(id)) {
    return absl::FailedPreconditionError(absl::StrCat("segment '", segment->spec.name, "' belongs to set '",
                                                      sets_.Find(*set)->name, "'; retire it first"));
  }
  EndSegment(id);
  Pump();
  return absl::OkStatus();
}

absl::StatusOr<Arbiter::MappedSegment> Arbiter::MapSegment(TenantRecord& tenant, SegmentId id, absl::Time deadline) {
  MutexLock send(tenant.send_mutex);
  MappedSegment mapped;
  BlockAccess access = BlockAccess::kReadWrite;
  std::vector<uint32_t> missing;
  {
    MutexLock lock(mutex_);
    TANDEM_RETURN_IF_ERROR(CheckAlive(tenant));
    const SegmentRecord* segment = ledger_.Find(id);
    if (segment == nullptr || segment->quarantined) return absl::NotFoundError(absl::StrCat("no segment ", id));
    if (segment->owner != tenant.id) {
      if (segment->spec.kind != SegmentKind::kShared) {
        return absl::PermissionDeniedError(
            absl::StrCat("segment '", segment->spec.name, "' is private to tenant '", segment->tenant, "'"));
      }
      access = BlockAccess::kReadOnly;
      readers_[id].insert(tenant.id);
    }
    const std::vector<uint32_t> blocks = BlocksOf(segment->range);
    mapped = {*segment, blocks.front(), static_cast<uint32_t>(blocks.size())};
    std::copy_if(blocks.begin(), blocks.end(), std::back_inserter(missing),
                 [&](uint32_t block) { return tenant.mapped[block] < static_cast<uint8_t>(access); });
  }
  for (size_t first = 0; first < missing.size(); first += lifeline::kMaxFdsPerMessage) {
    const size_t last = std::min(missing.size(), first + lifeline::kMaxFdsPerMessage);
    TANDEM_RETURN_IF_ERROR(SendBlocks(tenant, {missing.begin() + first, missing.begin() + last}, access, deadline));
  }
  return mapped;
}

absl::Status Arbiter::SendBlocks(TenantRecord& tenant, const std::vector<uint32_t>& blocks, BlockAccess access,
                                 absl::Time deadline) {
  std::vector<UniqueFd> owned;
  std::vector<int> fds;
  for (const uint32_t block : blocks) {
    TANDEM_ASSIGN_OR_RETURN(UniqueFd fd, device_.ShareBlock(block, access));
    fds.push_back(fd.get());
    owned.push_back(std::move(fd));
  }
  lifeline::Blocks message{.access = static_cast<uint32_t>(access), .blocks = blocks};
  {
    MutexLock lock(mutex_);
    message.batch = ++last_batch_;
    tenant.batches[message.batch] = std::nullopt;
    // From here on the tenant may have them, whatever becomes of the acknowledgement.
    for (const uint32_t block : blocks) tenant.mapped[block] = static_cast<uint8_t>(access);
  }
  absl::Status sent = lifeline::Send(tenant.lifeline.get(), message, fds, deadline - absl::Now());
  MutexLock lock(mutex_);
  if (sent.ok()) {
    sent = Await(
        tenant, deadline, [&] { return tenant.batches[message.batch].has_value(); },
        [&] { return absl::StrCat("tenant '", tenant.name, "' to acknowledge ", blocks.size(), " blocks"); });
  }
  const std::optional<std::string> answer = tenant.batches[message.batch];
  tenant.batches.erase(message.batch);
  TANDEM_RETURN_IF_ERROR(sent);
  if (!answer->empty()) return absl::InternalError(absl::StrCat("tenant '", tenant.name, "' cannot map: ", *answer));
  return absl::OkStatus();
}

void Arbiter::UnmapDone(TenantRecord& tenant, SegmentId id) {
  MutexLock lock(mutex_);
  const SegmentRecord* segment = ledger_.Find(id);
  if (segment == nullptr || segment->owner == tenant.id || tenant.dying) return;
  const std::vector<uint32_t> blocks = BlocksOf(segment->range);
  // Not taken on trust where the system can tell.
  const auto still = device_.MappedBlocks(tenant.peer.pid(), blocks, /*writable_only=*/false);
  if (still.ok() && !still->empty()) {
    LOG_WARN("tenant={} acknowledged to unmap segment {} but still maps {} blocks of it", tenant.name, id,
             still->size());
    return;
  }
  for (const uint32_t block : blocks) tenant.mapped[block] = 0;
  ForgetReader(id, tenant.id);
  tenant.unmap_pending.erase(id);
  changed_.NotifyAll();
  Pump();
}

void Arbiter::RemapDone(TenantRecord& tenant, uint64_t remap_id) {
  MutexLock lock(mutex_);
  const auto remap = tenant.remap_pending.find(remap_id);
  if (remap == tenant.remap_pending.end() || tenant.dying) return;
  const std::vector<uint32_t> blocks = BlocksOf(remap->second);
  const auto still = device_.MappedBlocks(tenant.peer.pid(), blocks, /*writable_only=*/true);
  if (still.ok() && !still->empty()) {
    LOG_WARN("tenant={} acknowledged remap {} but still maps {} blocks writable", tenant.name, remap_id, still->size());
    return;
  }
  for (const uint32_t block : blocks) tenant.mapped[block] = 0;
  tenant.remap_pending.erase(remap);
  changed_.NotifyAll();
}

void Arbiter::EndSegment(SegmentId id) {
  ledger_.Quarantine(id);
  const auto readers = readers_.find(id);
  if (readers == readers_.end() || readers->second.empty()) {
    RemoveSegment(id);
    return;
  }
  for (const SessionId session : readers->second) {
    const TenantPtr reader = Find(session);
    reader->unmap_pending.insert(id);
    Send(*reader, UnmapEvent{id});
  }
}

void Arbiter::ForgetReader(SegmentId id, SessionId session) {
  const auto readers = readers_.find(id);
  if (readers == readers_.end()) return;
  readers->second.erase(session);
  if (!readers->second.empty()) return;
  readers_.erase(readers);
  const SegmentRecord* segment = ledger_.Find(id);
  if (segment == nullptr || !segment->quarantined) return;
  const TenantPtr owner = Find(segment->owner);
  const bool owner_unproved = owner != nullptr && owner->dying;
  if (!owner_unproved) RemoveSegment(id);
}

void Arbiter::RemoveSegment(SegmentId id) {
  ledger_.Remove(id);
  buffers_.erase(id);
  readers_.erase(id);
  changed_.NotifyAll();
}

}  // namespace tandem::arbiter
