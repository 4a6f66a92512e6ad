#pragma once
// The arbiter's Prometheus metrics. Thread-safe (prometheus-cpp's own locks); called under the arbiter's mutex.

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "arbiter/state/pool_ledger.h"

namespace tandem::arbiter {

class ArbiterMetrics {
 public:
  explicit ArbiterMetrics(std::shared_ptr<prometheus::Registry> registry);

  void OnGrant(const std::string& tenant, absl::Duration waited, Token token);
  void OnTurnEnd(const std::string& tenant, absl::Duration held);
  void OnKill(const std::string& tenant, const std::string& reason);
  void OnMove(const std::string& tenant, bool evict, uint64_t bytes);
  void OnTenantGone(const std::string& tenant);
  void SetPool(const PoolLedger& ledger);
  void SetBlocked(bool blocked);

 private:
  std::shared_ptr<prometheus::Registry> registry_;
  prometheus::Family<prometheus::Counter>& turns_;
  prometheus::Family<prometheus::Histogram>& held_seconds_;
  prometheus::Family<prometheus::Histogram>& waited_seconds_;
  prometheus::Family<prometheus::Gauge>& holder_;
  prometheus::Family<prometheus::Gauge>& token_;
  prometheus::Family<prometheus::Counter>& kills_;
  prometheus::Family<prometheus::Counter>& moved_bytes_;
  prometheus::Family<prometheus::Counter>& switches_;
  prometheus::Family<prometheus::Gauge>& pool_bytes_;
  prometheus::Family<prometheus::Gauge>& tenant_bytes_;
  prometheus::Family<prometheus::Gauge>& blocked_;
  std::string last_holder_;
};

}  // namespace tandem::arbiter
