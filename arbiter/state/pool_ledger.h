#pragma once
// The book of one arena: which segment lies where, what of it is kept, and where its bytes are now. Pure: it decides
// places and moves, the mover acts (arbiter/mover.h), and FinishMove tells the book afterwards. Until then the source
// of a move stays authoritative. Not thread-safe: guarded by the arbiter's mutex.
//
// Accounting, always: shared + union(private) + quarantined + free = arena.

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "arbiter/state/byte_ranges.h"
#include "arbiter/state/ids.h"

namespace tandem::arbiter {

enum class SegmentKind { kShared, kPrivate };

struct SegmentSpec {
  std::string name;  // unique within its tenant
  SegmentKind kind = SegmentKind::kPrivate;
  uint64_t bytes = 0;
  bool usually_kept = false;
  bool may_evict = false;
};

struct SegmentRecord {
  SegmentId id = 0;
  SessionId owner = 0;
  std::string tenant;
  SegmentSpec spec;  // bytes rounded up
  ByteRange range;
  bool quarantined = false;  // its end is not proved or not acknowledged by all readers: nothing new lies there
  bool kept = false;         // contents must be there at the owner's next turn
  ByteRanges evicted;        // kept bytes whose copy in host memory is the authoritative one
  bool has_host_memory() const { return spec.usually_kept || spec.may_evict; }
};

// One copy between arena and host memory; `range` in arena offsets.
struct Move {
  SegmentId segment = 0;
  bool evict = false;  // else restore
  ByteRange range;
};

struct PoolAccounting {
  uint64_t arena_bytes = 0;
  uint64_t shared_bytes = 0;
  uint64_t private_union_bytes = 0;
  uint64_t quarantined_bytes = 0;
  uint64_t free_bytes = 0;
  uint64_t overlaid_bytes = 0;  // what private segments sum to beyond their union
  uint64_t host_bytes = 0;
  uint64_t host_reserved_bytes = 0;
};

class PoolLedger {
 public:
  static constexpr uint64_t kPrivateGranuleBytes = 4096;

  PoolLedger(uint64_t arena_bytes, uint64_t block_bytes, uint64_t host_bytes);

  // Places a segment. INVALID_ARGUMENT, ALREADY_EXISTS (name), RESOURCE_EXHAUSTED with what is missing and who holds
  // what.
  absl::StatusOr<SegmentId> Create(SessionId owner, const std::string& tenant, SegmentSpec spec);
  // Takes a segment out of the book at once.
  void Remove(SegmentId id);
  // Marks a segment as ending: no new segment lies on its bytes until Remove.
  void Quarantine(SegmentId id);

  // Whether `owner` may keep `ids` at a yield: own live private segments with host memory.
  absl::Status CheckKeep(SessionId owner, absl::Span<const SegmentId> ids) const;
  // The owner yields: `ids` are kept, its other private segments dropped. CheckKeep holds.
  void Keep(SessionId owner, absl::Span<const SegmentId> ids);

  // The copies to make before `owner` may touch all of its private segments: first evictions of other tenants' kept
  // bytes under them, then restores of its own.
  std::vector<Move> PlanGrant(SessionId owner) const;
  void FinishMove(const Move& move);
  // Own private segments without contents: dropped, or never kept.
  std::vector<SegmentId> Lost(SessionId owner) const;
  // Whether a private segment of `owner` lies on quarantined bytes: it can not be granted a turn until these are free.
  bool TouchesQuarantine(SessionId owner) const;

  const SegmentRecord* Find(SegmentId id) const;
  std::vector<SegmentId> SegmentsOf(SessionId owner) const;
  const std::map<SegmentId, SegmentRecord>& segments() const { return segments_; }
  PoolAccounting Accounting() const;
  uint64_t block_bytes() const { return block_bytes_; }

  // Ends the process if the book contradicts itself.
  void CheckInvariants() const;

 private:
  absl::Status Validate(SessionId owner, const std::string& tenant, const SegmentSpec& spec) const;
  absl::StatusOr<uint64_t> Place(SessionId owner, const std::string& tenant, const SegmentSpec& spec) const;
  absl::Status DoesNotFit(const std::string& tenant, const SegmentSpec& spec, uint64_t longest_run) const;
  std::string WhoHoldsWhat() const;

  const uint64_t arena_bytes_;
  const uint64_t block_bytes_;
  const uint64_t host_bytes_;
  uint64_t host_reserved_bytes_ = 0;
  SegmentId last_id_ = 0;
  std::map<SegmentId, SegmentRecord> segments_;
};

}  // namespace tandem::arbiter
