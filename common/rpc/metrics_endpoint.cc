#include "common/rpc/metrics_endpoint.h"

#include <prometheus/exposer.h>
#include <prometheus/gauge.h>

#include "absl/strings/str_cat.h"
#include "common/base/version.h"

namespace tandem::rpc {

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Start(
    const std::string& address, const std::shared_ptr<prometheus::Registry>& registry) {
  auto endpoint = std::unique_ptr<MetricsEndpoint>(new MetricsEndpoint);
  if (address == "off" || address.empty()) return endpoint;
  try {  // civetweb's wrapper throws when the address is taken or malformed
    endpoint->exposer_ = std::make_unique<prometheus::Exposer>(address, 1);
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat("metrics address ", address, " can not be bound (", error.what(),
                                               "): choose another one, or off"));
  }
  endpoint->exposer_->RegisterCollectable(registry);
  const auto ports = endpoint->exposer_->GetListeningPorts();
  endpoint->port_ = ports.empty() ? 0 : ports.front();
  return endpoint;
}

MetricsEndpoint::~MetricsEndpoint() = default;

void AddBuildInfo(prometheus::Registry& registry, const std::string& daemon) {
  prometheus::BuildGauge()
      .Name("tandem_build_info")
      .Help("Always 1; the labels say which daemon of which version this is.")
      .Register(registry)
      .Add({{"daemon", daemon}, {"version", kVersion}})
      .Set(1);
}

}  // namespace tandem::rpc
