#include "arbiter/arbiter_metrics.h"

#include <map>
#include <utility>

namespace tandem::arbiter {
namespace {

template <typename Builder>
auto& Family(Builder builder, prometheus::Registry& registry, const char* name, const char* help) {
  return builder.Name(name).Help(help).Register(registry);
}

const prometheus::Histogram::BucketBoundaries& Buckets() {
  static const prometheus::Histogram::BucketBoundaries buckets = {0.0005, 0.001, 0.005, 0.02, 0.1, 0.5,
                                                                  1,      2,     5,     10,   30,  120};
  return buckets;
}

}  // namespace

ArbiterMetrics::ArbiterMetrics(std::shared_ptr<prometheus::Registry> registry)
    : registry_(std::move(registry)),
      turns_(Family(prometheus::BuildCounter(), *registry_, "tandem_arbiter_turns_total", "Turns granted")),
      held_seconds_(Family(prometheus::BuildHistogram(), *registry_, "tandem_arbiter_turn_held_seconds",
                           "How long turns were held")),
      waited_seconds_(Family(prometheus::BuildHistogram(), *registry_, "tandem_arbiter_turn_waited_seconds",
                             "How long tenants waited for a turn")),
      holder_(Family(prometheus::BuildGauge(), *registry_, "tandem_arbiter_holder", "1 for the tenant with the turn")),
      token_(Family(prometheus::BuildGauge(), *registry_, "tandem_arbiter_token", "Token of the newest turn")),
      kills_(Family(prometheus::BuildCounter(), *registry_, "tandem_arbiter_kills_total", "Tenants killed, by reason")),
      moved_bytes_(Family(prometheus::BuildCounter(), *registry_, "tandem_arbiter_moved_bytes_total",
                          "Bytes evicted to and restored from host memory")),
      switches_(Family(prometheus::BuildCounter(), *registry_, "tandem_arbiter_switches_total",
                       "Grants to another tenant than the last one")),
      pool_bytes_(Family(prometheus::BuildGauge(), *registry_, "tandem_arbiter_pool_bytes", "The pool by kind of use")),
      tenant_bytes_(
          Family(prometheus::BuildGauge(), *registry_, "tandem_arbiter_tenant_bytes", "Segments by tenant and kind")),
      blocked_(Family(prometheus::BuildGauge(), *registry_, "tandem_arbiter_blocked",
                      "1 while no turn is granted because a process's end is not proved")) {
  blocked_.Add({}).Set(0);
}

void ArbiterMetrics::OnGrant(const std::string& tenant, absl::Duration waited, Token token) {
  turns_.Add({{"tenant", tenant}}).Increment();
  waited_seconds_.Add({{"tenant", tenant}}, Buckets()).Observe(absl::ToDoubleSeconds(waited));
  holder_.Add({{"tenant", tenant}}).Set(1);
  token_.Add({}).Set(static_cast<double>(token));
  if (last_holder_ != tenant) switches_.Add({}).Increment();
  last_holder_ = tenant;
}

void ArbiterMetrics::OnTurnEnd(const std::string& tenant, absl::Duration held) {
  held_seconds_.Add({{"tenant", tenant}}, Buckets()).Observe(absl::ToDoubleSeconds(held));
  holder_.Add({{"tenant", tenant}}).Set(0);
}

void ArbiterMetrics::OnKill(const std::string& tenant, const std::string& reason) {
  kills_.Add({{"tenant", tenant}, {"reason", reason}}).Increment();
}

void ArbiterMetrics::OnMove(const std::string& tenant, bool evict, uint64_t bytes) {
  moved_bytes_.Add({{"tenant", tenant}, {"direction", evict ? "evict" : "restore"}})
      .Increment(static_cast<double>(bytes));
}

void ArbiterMetrics::OnTenantGone(const std::string& tenant) {
  for (const char* kind : {"shared", "private", "kept"}) {
    tenant_bytes_.Add({{"tenant", tenant}, {"kind", kind}}).Set(0);
  }
}

void ArbiterMetrics::SetPool(const PoolLedger& ledger) {
  const PoolAccounting sums = ledger.Accounting();
  const std::pair<const char*, uint64_t> kinds[] = {
      {"shared", sums.shared_bytes},           {"private_union", sums.private_union_bytes},
      {"quarantined", sums.quarantined_bytes}, {"free", sums.free_bytes},
      {"overlaid", sums.overlaid_bytes},       {"host_reserved", sums.host_reserved_bytes}};
  for (const auto& [kind, bytes] : kinds) pool_bytes_.Add({{"kind", kind}}).Set(static_cast<double>(bytes));
  std::map<std::pair<std::string, std::string>, uint64_t> by_tenant;
  for (const auto& [id, segment] : ledger.segments()) {
    for (const char* kind : {"shared", "private", "kept"}) by_tenant[{segment.tenant, kind}] += 0;
    const bool shared = segment.spec.kind == SegmentKind::kShared;
    by_tenant[{segment.tenant, shared ? "shared" : "private"}] += segment.spec.bytes;
    if (segment.kept) by_tenant[{segment.tenant, "kept"}] += segment.spec.bytes;
  }
  for (const auto& [key, bytes] : by_tenant) {
    tenant_bytes_.Add({{"tenant", key.first}, {"kind", key.second}}).Set(static_cast<double>(bytes));
  }
}

void ArbiterMetrics::SetBlocked(bool blocked) {
  blocked_.Add({}).Set(blocked ? 1 : 0);
}

}  // namespace tandem::arbiter
