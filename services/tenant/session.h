#pragma once
// The client's half of the arbiter: one Session per process, its segments, its turns.
//
// Call order:   Connect  (CreatePrivate | CreateShared | MapSet | RequestTurn ...)*  destroy
//   within a turn:   RequestTurn -> Turn  (BeginWrite Commit)*  Turn::Yield
// A Session owns the lifeline, the Attach stream, the reserved address range of the arena and all mappings. It re-opens
// a broken stream by itself. When the arbiter has died, every call returns UNAVAILABLE and `arbiter_gone()` is true for
// good: the pool is lost, the owner destroys the Session and connects a new one. All methods are thread-safe; the
// callbacks run on the session's own thread and must not block.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tandem::tenant {

// A private segment mapped into this process, or an own shared segment mapped writable. The address never changes.
struct Segment {
  uint64_t id = 0;
  std::string name;
  std::byte* data = nullptr;
  uint64_t bytes = 0;
};

enum class SetState { kEmpty, kCommitted, kWriting, kTorn, kAbsent };

// A weight set as of the last message from the arbiter.
struct SetView {
  uint64_t id = 0;
  std::string name;
  std::string tenant;  // its owner
  SetState state = SetState::kAbsent;
  uint64_t version = 0;
  uint64_t shared_segment_id = 0;
  std::string manifest;  // JSON, see services/checkpoint/weight_manifest.h
  std::string note;
};

struct PrivateOptions {
  std::string name;
  uint64_t bytes = 0;
  bool usually_kept = false;  // kept at most yields: placed where nobody else keeps, host memory reserved
  bool may_evict = false;     // sometimes kept: host memory reserved, so that a keep can not fail
};

struct SessionOptions {
  std::string run_dir;                             // holds arbiter.sock (gRPC) and lifeline.sock
  std::string tenant;                              // "trainer", "inference"
  absl::Duration longest_unit = absl::Seconds(2);  // longest uninterruptible piece of work
  absl::Duration connect_timeout = absl::Seconds(10);
  absl::Duration rpc_timeout = absl::Seconds(10);
  // A set was made, committed, torn or retired. Runs on the session's thread.
  std::function<void(const SetView&)> on_set_changed;
  // The arbiter wants `segment_id` (a foreign shared segment that this session mapped) unmapped. Stop using it, then
  // call UnmapSegment. Runs on the session's thread.
  std::function<void(uint64_t segment_id)> on_unmap;
};

class Session;

// The exclusive right to use the node's devices. Yields in the destructor (dropping everything) if not yielded before.
// One thread at a time.
class Turn {
 public:
  Turn(Turn&& other) noexcept;
  Turn& operator=(Turn&& other) noexcept;
  ~Turn();

  uint64_t token() const { return token_; }
  // Every set as of the grant.
  const std::vector<SetView>& sets() const { return sets_; }
  // Whether the contents of an own private segment are gone since the last turn.
  bool Lost(const Segment& segment) const;
  // One atomic read: true when the arbiter has asked for the turn back. Check it between units of work; it counts as
  // Progress.
  bool ShouldYield() const;

  // Opens the write window of an own set.
  absl::Status BeginWrite(uint64_t set_id);
  // Closes it; returns the new version. `note` (at most 4 KiB) is stored with it.
  absl::StatusOr<uint64_t> Commit(uint64_t set_id, const std::string& note);
  // Ends the turn. The contents of the segments in `keep` are there at the next turn, all others are dropped.
  absl::Status Yield(const std::vector<const Segment*>& keep);

 private:
  friend class Session;
  Turn() = default;
  Session* session_ = nullptr;
  uint64_t token_ = 0;
  std::vector<SetView> sets_;
  std::vector<uint64_t> lost_;
};

class Session {
 public:
  static absl::StatusOr<std::unique_ptr<Session>> Connect(SessionOptions options);
  ~Session();

  // Makes and maps a private segment. RESOURCE_EXHAUSTED says how many bytes are missing and who holds what.
  absl::StatusOr<Segment> CreatePrivate(const PrivateOptions& options);
  // Makes a shared segment of whole blocks and maps it writable.
  absl::StatusOr<Segment> CreateShared(const std::string& name, uint64_t bytes);
  absl::Status Release(const Segment& segment);

  // Makes a set of an own shared segment and the private segments that change with it.
  absl::StatusOr<SetView> CreateSet(const std::string& name, const Segment& shared,
                                    const std::vector<Segment>& privates, const std::string& manifest);
  absl::Status RetireSet(uint64_t set_id);
  // Maps the shared segment of another tenant's set read-only (own sets: as they are mapped).
  absl::StatusOr<Segment> MapSet(const SetView& set);
  // Unmaps a foreign shared segment; acknowledges a pending Unmap.
  absl::Status UnmapSegment(uint64_t segment_id);
  // The sets that exist now.
  std::vector<SetView> Sets() const;

  // Waits for the turn, at most `timeout` (DEADLINE_EXCEEDED; the request is withdrawn or, if the grant crosses,
  // yielded). At most one request at a time; asserts that this session does not hold the turn.
  absl::StatusOr<Turn> RequestTurn(absl::Duration timeout);
  bool HoldsTurn() const;

  // Says that work moves on; call it at least every few hundred milliseconds while the turn is held or while loading.
  void Progress();

  // The arbiter's process is gone, and with it the pool.
  bool arbiter_gone() const;
  uint64_t arena_bytes() const;
  // Totals of this session: turns granted, seconds between asking for a turn and getting it.
  uint64_t turns() const;
  double waited_seconds() const;

  // Breaks the Attach stream as a lost connection would; the session opens it again.
  void BreakStreamForTest();

  class Impl;

 private:
  friend class Turn;
  Session();
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::tenant
