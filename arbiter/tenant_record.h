#pragma once
// What the arbiter knows of one tenant. Owned by the arbiter's table; handlers hold it by shared_ptr, so that a
// tenant's death during a call takes nothing away under it. Members are guarded by the arbiter's mutex unless said
// otherwise.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "arbiter/answer_log.h"
#include "arbiter/outbox.h"
#include "common/base/unique_fd.h"
#include "common/device/device.h"
#include "common/lifeline/peer.h"

namespace tandem::arbiter {

struct TenantRecord {
  TenantRecord(SessionId id, lifeline::Peer peer, UniqueFd socket)
      : id(id), peer(std::move(peer)), lifeline(std::move(socket)) {}

  // Set once.
  const SessionId id;
  const lifeline::Peer peer;
  const UniqueFd lifeline;  // sent on under `send_mutex`, received from by the lifeline loop alone
  std::string key;
  std::string name;
  uint64_t socket_inode = 0;
  absl::Duration longest_unit;

  AnswerLog answers;  // guards itself
  Mutex send_mutex;   // one transfer of descriptors at a time; taken before the arbiter's mutex

  // The end, as far as it is proved.
  bool lifeline_closed = false;
  bool exited = false;
  bool detached = false;  // it said Goodbye and its maps are gone: its process may live on
  bool kill_sent = false;
  bool late_proof_logged = false;
  bool dying = false;          // any sign of the end: no grants, no verbs, its segments quarantined
  absl::Duration dying_since;  // or since kill_sent
  // Nothing of it can run on the devices any more.
  bool stopped() const { return exited || detached; }

  // The stream.
  std::shared_ptr<Outbox> outbox;                   // null while no stream is open
  std::optional<absl::Duration> stream_lost_since;  // since when there is none
  uint64_t last_answered_request_id = 0;
  uint64_t progress = 0;
  absl::Duration last_progress;
  std::vector<SegmentId> lost_at_grant;

  // Memory.
  std::vector<uint8_t> mapped;        // per block: 0 or the BlockAccess it was sent with
  std::set<SegmentId> unmap_pending;  // foreign shared segments that it must still unmap
  std::map<uint64_t, ByteRange> remap_pending;
  std::map<uint64_t, std::optional<std::string>> batches;  // descriptors sent: no value until acknowledged

  // Totals.
  uint64_t turns = 0;
  absl::Duration held;
  absl::Duration waited;
};

}  // namespace tandem::arbiter
