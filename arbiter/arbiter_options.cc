#include "arbiter/arbiter_options.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/device/host_memory.h"

namespace tandem::arbiter {

absl::Status ArbiterOptions::Validate() const {
  if (run_dir.empty()) return absl::InvalidArgumentError("--run_dir is empty; give the directory for the sockets");
  struct Range {
    const char* name;
    int64_t value, least, most;
  };
  constexpr int64_t kHourMs = 3600 * 1000;
  const Range ranges[] = {{"quantum_ms", quantum_ms, 1, kHourMs},
                          {"revoke_grace_ms", revoke_grace_ms, 0, kHourMs},
                          {"stall_ms", stall_ms, 100, 24 * kHourMs},
                          {"reattach_ms", reattach_ms, 10, kHourMs},
                          {"proof_ms", proof_ms, 10, kHourMs},
                          {"heartbeat_ms", heartbeat_ms, 10, 10000},
                          {"longest_unit_cap_ms", longest_unit_cap_ms, 1, kHourMs}};
  for (const Range& range : ranges) {
    if (range.value < range.least || range.value > range.most) {
      return absl::InvalidArgumentError(
          absl::StrFormat("--%s is %d; give %d to %d", range.name, range.value, range.least, range.most));
    }
  }
  return absl::OkStatus();
}

absl::Status ArbiterOptions::Resolve() {
  if (pool_bytes == 0) {
    constexpr uint64_t kMostByDefault = uint64_t{4} << 30;
    TANDEM_ASSIGN_OR_RETURN(const uint64_t available, AvailableMemoryBytes());
    pool_bytes = std::min(kMostByDefault, available / 2);
  }
  if (host_bytes == 0) host_bytes = pool_bytes;
  return absl::OkStatus();
}

std::string ArbiterOptions::ToString() const {
  return absl::StrFormat(
      "run_dir=%s pool_bytes=%d host_bytes=%d quantum_ms=%d revoke_grace_ms=%d stall_ms=%d reattach_ms=%d proof_ms=%d "
      "heartbeat_ms=%d longest_unit_cap_ms=%d allow_unkillable=%d metrics_address=%s",
      run_dir, pool_bytes, host_bytes, quantum_ms, revoke_grace_ms, stall_ms, reattach_ms, proof_ms, heartbeat_ms,
      longest_unit_cap_ms, allow_unkillable, metrics_address);
}

TurnLimits ArbiterOptions::Limits() const {
  return {.quantum = absl::Milliseconds(quantum_ms),
          .revoke_grace = absl::Milliseconds(revoke_grace_ms),
          .stall_floor = absl::Milliseconds(stall_ms),
          .reattach = absl::Milliseconds(reattach_ms)};
}

}  // namespace tandem::arbiter
