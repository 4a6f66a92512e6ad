#pragma once
// Every setting of the arbiter in one plain struct. main.cc fills it from flags; Validate names field, value and
// remedy.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "arbiter/state/turn_policy.h"
#include "common/lifeline/peer.h"

namespace tandem::arbiter {

struct ArbiterOptions {
  std::string run_dir;
  uint64_t pool_bytes = 0;  // 0: min(4 GiB, half of the available memory)
  uint64_t host_bytes = 0;  // for keeping; 0: as much as the pool
  int64_t quantum_ms = 1000;
  int64_t revoke_grace_ms = 5000;
  int64_t stall_ms = 60000;
  int64_t reattach_ms = 2000;
  int64_t proof_ms = 5000;  // a killed process must have exited by then, else an error is logged
  int64_t heartbeat_ms = 100;
  int64_t longest_unit_cap_ms = 60000;  // what a tenant declares beyond it is cut
  bool allow_unkillable = false;        // let tenants in that the arbiter may not signal
  lifeline::PidfdSource pidfd_source = lifeline::PidfdSource::kAuto;
  std::string metrics_address = "127.0.0.1:0";  // or "off"
  std::string log_level = "info";

  absl::Status Validate() const;
  // Replaces the zeros that mean "choose" by what this machine has.
  absl::Status Resolve();
  std::string ToString() const;
  TurnLimits Limits() const;
};

}  // namespace tandem::arbiter
