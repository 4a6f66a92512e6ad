#pragma once
// What the arbiter tells a tenant over its Attach stream, before it becomes protobuf (arbiter_service.cc).

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "arbiter/state/pool_ledger.h"
#include "arbiter/state/set_registry.h"

namespace tandem::arbiter {

// The whole state of a session: the first event of every stream.
struct StateEvent {
  std::string tenant;
  Token held_token = 0;
  int64_t revoke_ms_left = -1;
  uint64_t pending_request_id = 0;
  uint64_t last_answered_request_id = 0;
  std::vector<SegmentRecord> segments;
  std::vector<SetRecord> sets;
  std::vector<SegmentId> unmap_segments;
  std::vector<SegmentId> lost_segments;  // as of the grant of held_token
  uint32_t heartbeat_ms = 0;
  uint64_t arena_bytes = 0;
  uint64_t block_bytes = 0;
};

struct GrantEvent {
  uint64_t request_id = 0;
  Token token = 0;
  std::vector<SetRecord> sets;  // without manifests
  std::vector<SegmentId> lost_segments;
};

struct RevokeEvent {
  Token token = 0;
  uint32_t ms_left = 0;
};

struct UnmapEvent {
  SegmentId segment = 0;
};

struct SetChangedEvent {
  SetRecord set;  // with its manifest only when it is new
};

struct RemapEvent {
  uint64_t remap_id = 0;
  ByteRange range;
};

struct YieldRefusedEvent {
  Token token = 0;
  std::string reason;
};

using Event =
    std::variant<StateEvent, GrantEvent, RevokeEvent, UnmapEvent, SetChangedEvent, RemapEvent, YieldRefusedEvent>;

}  // namespace tandem::arbiter
