#pragma once
// The weight sets and their versions. A version numbers a committed state; it only grows, over all sets of one arbiter.
//
//   kEmpty --BeginWrite--> kWriting --Commit--> kCommitted --BeginWrite--> kWriting ...
//   kWriting --Tear--> kTorn (its owner died inside the window)      any --Remove--> gone
//
// Pure; not thread-safe: guarded by the arbiter's mutex. Turns and tokens are checked by the caller.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "arbiter/state/ids.h"

namespace tandem::arbiter {

enum class SetState { kEmpty, kCommitted, kWriting, kTorn, kAbsent };

struct SetRecord {
  SetId id = 0;
  SessionId owner = 0;
  std::string name;
  std::string tenant;
  SetState state = SetState::kEmpty;
  uint64_t version = 0;  // 0: nothing committed
  SegmentId shared_segment = 0;
  std::vector<SegmentId> private_segments;
  std::string manifest;
  std::string note;
};

class SetRegistry {
 public:
  static constexpr size_t kMaxNoteBytes = 4096;
  static constexpr size_t kMaxManifestBytes = size_t{2} << 20;

  // `set` without id, state and version. ALREADY_EXISTS when the owner has a set of that name or the segment is in one.
  absl::StatusOr<SetId> Create(SetRecord set);
  absl::Status BeginWrite(SessionId owner, SetId id);
  // Returns the new version.
  absl::StatusOr<uint64_t> Commit(SessionId owner, SetId id, const std::string& note);
  // Whether the owner may retire the set now.
  absl::Status CheckRetire(SessionId owner, SetId id) const;
  // Takes the set out; returns it with state kAbsent.
  SetRecord Remove(SetId id);
  // The owner died: sets inside their window are torn. Returns their ids.
  std::vector<SetId> Tear(SessionId owner);

  // The set of `owner` whose window is open, if any: it may not yield.
  std::optional<SetId> WindowOf(SessionId owner) const;
  // The set that holds a segment, if any.
  std::optional<SetId> SetOfSegment(SegmentId segment) const;
  std::vector<SetId> SetsOf(SessionId owner) const;
  const SetRecord* Find(SetId id) const;
  const std::map<SetId, SetRecord>& sets() const { return sets_; }

 private:
  absl::StatusOr<SetRecord*> FindOwn(SessionId owner, SetId id);

  SetId last_id_ = 0;
  uint64_t last_version_ = 0;
  std::map<SetId, SetRecord> sets_;
};

}  // namespace tandem::arbiter
