#include "arbiter/state/pool_ledger.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "arbiter/state/placement.h"
#include "common/base/status.h"

namespace tandem::arbiter {
namespace {

const char* KindName(SegmentKind kind) {
  return kind == SegmentKind::kShared ? "shared" : "private";
}

// Bytes of a kept segment whose authoritative copy lies in the arena.
ByteRanges ResidentKept(const SegmentRecord& segment) {
  if (!segment.kept || segment.quarantined) return {};
  ByteRanges resident(segment.range);
  resident.Remove(segment.evicted);
  return resident;
}

}  // namespace

PoolLedger::PoolLedger(uint64_t arena_bytes, uint64_t block_bytes, uint64_t host_bytes)
    : arena_bytes_(arena_bytes), block_bytes_(block_bytes), host_bytes_(host_bytes) {
  TANDEM_CHECK(block_bytes > 0 && arena_bytes % block_bytes == 0, arena_bytes, " ", block_bytes);
}

absl::Status PoolLedger::Validate(SessionId owner, const std::string& tenant, const SegmentSpec& spec) const {
  if (spec.name.empty() || spec.name.size() > 128) {
    return absl::InvalidArgumentError("a segment's name must have 1 to 128 characters");
  }
  if (spec.bytes == 0) return absl::InvalidArgumentError(absl::StrCat("segment '", spec.name, "' has 0 bytes"));
  if (spec.bytes > arena_bytes_) return DoesNotFit(tenant, spec, arena_bytes_);
  for (const auto& [id, segment] : segments_) {
    if (segment.owner == owner && !segment.quarantined && segment.spec.name == spec.name) {
      return absl::AlreadyExistsError(absl::StrCat("tenant '", tenant, "' already has a segment '", spec.name,
                                                   "'; release it or choose another name"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<SegmentId> PoolLedger::Create(SessionId owner, const std::string& tenant, SegmentSpec spec) {
  TANDEM_RETURN_IF_ERROR(Validate(owner, tenant, spec));
  const uint64_t granule = spec.kind == SegmentKind::kShared ? block_bytes_ : kPrivateGranuleBytes;
  spec.bytes = (spec.bytes + granule - 1) / granule * granule;
  if (spec.kind == SegmentKind::kShared) spec.usually_kept = spec.may_evict = false;
  TANDEM_ASSIGN_OR_RETURN(const uint64_t offset, Place(owner, tenant, spec));
  SegmentRecord segment;
  segment.id = ++last_id_;
  segment.owner = owner;
  segment.tenant = tenant;
  segment.spec = std::move(spec);
  segment.range = {offset, offset + segment.spec.bytes};
  if (segment.has_host_memory()) host_reserved_bytes_ += segment.spec.bytes;
  const SegmentId id = segment.id;
  segments_.emplace(id, std::move(segment));
  return id;
}

absl::StatusOr<uint64_t> PoolLedger::Place(SessionId owner, const std::string& tenant, const SegmentSpec& spec) const {
  ByteRanges taken;
  if (spec.kind == SegmentKind::kShared) {
    for (const auto& [id, segment] : segments_) taken.Add(segment.range);
    const auto offset = PlaceShared(arena_bytes_, block_bytes_, spec.bytes, taken);
    if (!offset) return DoesNotFit(tenant, spec, LongestFreeRun(arena_bytes_, block_bytes_, taken));
    return *offset;
  }
  if ((spec.usually_kept || spec.may_evict) && host_reserved_bytes_ + spec.bytes > host_bytes_) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "host memory to keep private segment '%s' of tenant '%s' does not fit: %d bytes, %d of host_bytes %d are "
        "reserved, %d are missing; raise --host_bytes. Segments: %s",
        spec.name, tenant, spec.bytes, host_reserved_bytes_, host_bytes_,
        host_reserved_bytes_ + spec.bytes - host_bytes_, WhoHoldsWhat()));
  }
  PrivateSurroundings surroundings;
  for (const auto& [id, segment] : segments_) {
    if (segment.spec.kind == SegmentKind::kShared || segment.quarantined || segment.owner == owner) {
      surroundings.forbidden.Add(segment.range);
    } else if (segment.spec.usually_kept) {
      surroundings.usually_kept.Add(segment.range);
    } else if (segment.spec.may_evict) {
      surroundings.sometimes_kept.Add(segment.range);
    }
  }
  const auto offset = PlacePrivate(arena_bytes_, spec.bytes, surroundings);
  if (!offset) return DoesNotFit(tenant, spec, LongestFreeRun(arena_bytes_, 1, surroundings.forbidden));
  return *offset;
}

absl::Status PoolLedger::DoesNotFit(const std::string& tenant, const SegmentSpec& spec, uint64_t longest_run) const {
  const uint64_t missing = spec.bytes > longest_run ? spec.bytes - longest_run : 0;
  return absl::ResourceExhaustedError(absl::StrFormat(
      "%s segment '%s' of tenant '%s' does not fit: %d bytes, the longest run for it has %d of the pool's %d, %d are "
      "missing; raise --pool_bytes or make segments smaller. Segments: %s",
      KindName(spec.kind), spec.name, tenant, spec.bytes, longest_run, arena_bytes_, missing, WhoHoldsWhat()));
}

std::string PoolLedger::WhoHoldsWhat() const {
  std::vector<std::string> parts;
  for (const auto& [id, segment] : segments_) {
    parts.push_back(absl::StrFormat("%s %s '%s' %d bytes%s", segment.tenant, KindName(segment.spec.kind),
                                    segment.spec.name, segment.spec.bytes,
                                    segment.quarantined ? " (quarantined)" : ""));
  }
  return parts.empty() ? "none" : absl::StrJoin(parts, ", ");
}

void PoolLedger::Remove(SegmentId id) {
  const auto found = segments_.find(id);
  TANDEM_CHECK(found != segments_.end(), id);
  if (found->second.has_host_memory()) host_reserved_bytes_ -= found->second.spec.bytes;
  segments_.erase(found);
}

void PoolLedger::Quarantine(SegmentId id) {
  const auto found = segments_.find(id);
  TANDEM_CHECK(found != segments_.end(), id);
  found->second.quarantined = true;
  found->second.kept = false;
  found->second.evicted.Clear();
}

absl::Status PoolLedger::CheckKeep(SessionId owner, absl::Span<const SegmentId> ids) const {
  for (const SegmentId id : ids) {
    const SegmentRecord* segment = Find(id);
    if (segment == nullptr || segment->owner != owner || segment->quarantined ||
        segment->spec.kind != SegmentKind::kPrivate) {
      return absl::NotFoundError(absl::StrCat("segment ", id, " to keep is not an own private segment"));
    }
    if (!segment->has_host_memory()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "segment '", segment->spec.name, "' can not be kept: it was made without usually_kept or may_evict"));
    }
  }
  return absl::OkStatus();
}

void PoolLedger::Keep(SessionId owner, absl::Span<const SegmentId> ids) {
  TANDEM_CHECK(CheckKeep(owner, ids).ok(), owner);
  for (auto& [id, segment] : segments_) {
    if (segment.owner != owner || segment.spec.kind != SegmentKind::kPrivate || segment.quarantined) continue;
    segment.kept = std::find(ids.begin(), ids.end(), id) != ids.end();
    segment.evicted.Clear();  // the holder had all of its bytes in the arena
  }
}

std::vector<Move> PoolLedger::PlanGrant(SessionId owner) const {
  ByteRanges needed;
  for (const auto& [id, segment] : segments_) {
    if (segment.owner == owner && segment.spec.kind == SegmentKind::kPrivate) needed.Add(segment.range);
  }
  std::vector<Move> moves;
  for (const auto& [id, segment] : segments_) {
    if (segment.owner == owner) continue;
    for (const ByteRange& range : ResidentKept(segment).Intersection(needed).ranges()) {
      moves.push_back({.segment = id, .evict = true, .range = range});
    }
  }
  for (const auto& [id, segment] : segments_) {
    if (segment.owner != owner) continue;
    for (const ByteRange& range : segment.evicted.ranges()) {
      moves.push_back({.segment = id, .evict = false, .range = range});
    }
  }
  return moves;
}

void PoolLedger::FinishMove(const Move& move) {
  const auto found = segments_.find(move.segment);
  if (found == segments_.end() || !found->second.kept) return;  // its tenant died or released it meanwhile
  if (move.evict) {
    found->second.evicted.Add(move.range);
  } else {
    found->second.evicted.Remove(move.range);
  }
}

std::vector<SegmentId> PoolLedger::Lost(SessionId owner) const {
  std::vector<SegmentId> lost;
  for (const auto& [id, segment] : segments_) {
    if (segment.owner == owner && segment.spec.kind == SegmentKind::kPrivate && !segment.kept) lost.push_back(id);
  }
  return lost;
}

bool PoolLedger::TouchesQuarantine(SessionId owner) const {
  for (const auto& [own_id, own] : segments_) {
    if (own.owner != owner || own.spec.kind != SegmentKind::kPrivate) continue;
    for (const auto& [id, other] : segments_) {
      if (other.quarantined && other.owner != owner && other.range.Overlaps(own.range)) return true;
    }
  }
  return false;
}

const SegmentRecord* PoolLedger::Find(SegmentId id) const {
  const auto found = segments_.find(id);
  return found == segments_.end() ? nullptr : &found->second;
}

std::vector<SegmentId> PoolLedger::SegmentsOf(SessionId owner) const {
  std::vector<SegmentId> ids;
  for (const auto& [id, segment] : segments_) {
    if (segment.owner == owner) ids.push_back(id);
  }
  return ids;
}

PoolAccounting PoolLedger::Accounting() const {
  PoolAccounting sums;
  sums.arena_bytes = arena_bytes_;
  sums.host_bytes = host_bytes_;
  sums.host_reserved_bytes = host_reserved_bytes_;
  ByteRanges shared, privates, quarantined;
  uint64_t private_sum = 0;
  for (const auto& [id, segment] : segments_) {
    if (segment.quarantined) {
      quarantined.Add(segment.range);
    } else if (segment.spec.kind == SegmentKind::kShared) {
      shared.Add(segment.range);
    } else {
      privates.Add(segment.range);
      private_sum += segment.range.bytes();
    }
  }
  quarantined.Remove(privates);  // a byte under a live private segment counts there
  sums.shared_bytes = shared.bytes();
  sums.private_union_bytes = privates.bytes();
  sums.quarantined_bytes = quarantined.bytes();
  ByteRanges used = shared;
  used.Add(privates);
  used.Add(quarantined);
  sums.free_bytes = arena_bytes_ - used.bytes();
  sums.overlaid_bytes = private_sum - privates.bytes();
  return sums;
}

void PoolLedger::CheckInvariants() const {
  uint64_t reserved = 0;
  for (const auto& [id, a] : segments_) {
    if (a.has_host_memory()) reserved += a.spec.bytes;
    TANDEM_CHECK(a.range.end <= arena_bytes_ && a.range.bytes() == a.spec.bytes, id);
    TANDEM_CHECK(a.evicted.bytes() == a.evicted.OverlapBytes(a.range) && (a.kept || a.evicted.empty()), id);
    TANDEM_CHECK(!a.kept || a.has_host_memory(), id);
    const bool shared = a.spec.kind == SegmentKind::kShared;
    TANDEM_CHECK(!shared || (a.range.begin % block_bytes_ == 0 && a.range.end % block_bytes_ == 0), id);
    for (auto next = segments_.upper_bound(id); next != segments_.end(); ++next) {
      const SegmentRecord& b = next->second;
      if (!a.range.Overlaps(b.range)) continue;
      TANDEM_CHECK(!shared && b.spec.kind == SegmentKind::kPrivate, "shared overlaps ", id, " ", b.id);
      TANDEM_CHECK(a.owner != b.owner, "own segments overlap ", id, " ", b.id);
      TANDEM_CHECK(ResidentKept(a).Intersection(ResidentKept(b)).empty(), "two kept contents in one place ", id, " ",
                   b.id);
    }
  }
  TANDEM_CHECK(reserved == host_reserved_bytes_ && reserved <= host_bytes_, reserved, " ", host_reserved_bytes_);
  const PoolAccounting sums = Accounting();
  TANDEM_CHECK(sums.shared_bytes + sums.private_union_bytes + sums.quarantined_bytes + sums.free_bytes == arena_bytes_,
               "accounting identity");
}

}  // namespace tandem::arbiter
