#pragma once
// What the arbiter knows, as plain values for people and tools (GetState).

#include <cstdint>
#include <string>
#include <vector>

#include "arbiter/state/pool_ledger.h"
#include "arbiter/state/set_registry.h"

namespace tandem::arbiter {

struct TenantReport {
  std::string name;
  int pid = 0;
  bool attached = false;
  std::string turn_state;  // idle, waiting, holding, revoking, dying
  uint64_t private_bytes = 0;
  uint64_t shared_bytes = 0;
  uint64_t kept_bytes = 0;
  uint64_t turns = 0;
  double held_seconds = 0;
  double waited_seconds = 0;
  std::vector<int> lifeline_pids;  // processes that hold the lifeline of a tenant whose own process has exited
};

struct ArbiterReport {
  double uptime_seconds = 0;
  std::string device;
  uint64_t block_bytes = 0;
  PoolAccounting pool;
  uint64_t evicted_bytes_total = 0;
  uint64_t restored_bytes_total = 0;
  std::vector<TenantReport> tenants;
  std::vector<SegmentRecord> segments;
  std::vector<SetRecord> sets;
  Token token = 0;
  std::string holder;
  std::vector<std::string> waiters;
  uint64_t turns_total = 0;
  std::string blocked;
};

// The processes that hold the socket with this inode, from /proc; those of other users may be invisible.
std::vector<int> HoldersOfSocket(uint64_t inode);

}  // namespace tandem::arbiter
