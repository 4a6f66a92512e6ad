// The state for people and tools: see arbiter.h and arbiter_report.h.

#include "arbiter/arbiter_report.h"

#include <filesystem>
#include <string>

#include "absl/strings/numbers.h"
#include "arbiter/arbiter.h"

namespace tandem::arbiter {

namespace {

// Processes and descriptors come and go while they are listed, so every step may fail, without an exception.
bool HasLinkTo(const std::filesystem::path& folder, const std::string& target) {
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code unreadable;
    if (std::filesystem::read_symlink(at->path(), unreadable) == target) return true;
  }
  return false;
}

}  // namespace

std::vector<int> HoldersOfSocket(uint64_t inode) {
  const std::string target = absl::StrCat("socket:[", inode, "]");
  std::vector<int> pids;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc", error), end; !error && at != end; at.increment(error)) {
    int pid = 0;
    if (absl::SimpleAtoi(at->path().filename().string(), &pid) && HasLinkTo(at->path() / "fd", target)) {
      pids.push_back(pid);
    }
  }
  return pids;
}

ArbiterReport Arbiter::Report() {
  MutexLock lock(mutex_);
  ArbiterReport report;
  report.uptime_seconds = absl::ToDoubleSeconds(clock_.Now() - started_);
  report.device = device_.name();
  report.block_bytes = device_.block_bytes();
  report.pool = ledger_.Accounting();
  report.evicted_bytes_total = evicted_bytes_;
  report.restored_bytes_total = restored_bytes_;
  report.token = turns_.token();
  report.turns_total = turns_total_;
  report.blocked = BlockedBy();
  for (const auto& [id, segment] : ledger_.segments()) report.segments.push_back(segment);
  for (const auto& [id, set] : sets_.sets()) report.sets.push_back(set);
  for (const TurnMachine::Waiter& waiter : turns_.waiters()) report.waiters.push_back(Find(waiter.session)->name);
  for (const auto& [id, tenant] : tenants_) {
    TenantReport entry;
    entry.name = tenant->name;
    entry.pid = tenant->peer.pid();
    entry.attached = tenant->outbox != nullptr;
    const bool holds = turns_.Holds(id);
    if (holds) report.holder = tenant->name;
    const bool revoking = holds && turns_.phase() == TurnPhase::kRevoking;
    const bool waiting = turns_.FindWaiter(id) != nullptr || (turns_.current() == id && !holds);
    entry.turn_state = tenant->dying ? "dying"
                       : revoking    ? "revoking"
                       : holds       ? "holding"
                       : waiting     ? "waiting"
                                     : "idle";
    for (const SegmentId segment_id : ledger_.SegmentsOf(id)) {
      const SegmentRecord& segment = *ledger_.Find(segment_id);
      (segment.spec.kind == SegmentKind::kShared ? entry.shared_bytes : entry.private_bytes) += segment.range.bytes();
      if (segment.kept) entry.kept_bytes += segment.range.bytes();
    }
    entry.turns = tenant->turns;
    entry.held_seconds =
        absl::ToDoubleSeconds(tenant->held + (holds ? clock_.Now() - turns_.held_since() : absl::ZeroDuration()));
    entry.waited_seconds = absl::ToDoubleSeconds(tenant->waited);
    if (tenant->exited && !tenant->lifeline_closed) entry.lifeline_pids = HoldersOfSocket(tenant->socket_inode);
    report.tenants.push_back(std::move(entry));
  }
  return report;
}

}  // namespace tandem::arbiter
