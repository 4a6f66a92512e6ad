#pragma once
// The Prometheus endpoint of a daemon: GET /metrics on a TCP address, loopback unless configured otherwise.

#include <prometheus/registry.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace prometheus {
class Exposer;
}

namespace tandem::rpc {

class MetricsEndpoint {
 public:
  // Serves `registry` at `address` ("127.0.0.1:9400"). "off" serves nothing. Port 0 takes a free port.
  // UNAVAILABLE names the address when it can not be bound.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Start(const std::string& address,
                                                                const std::shared_ptr<prometheus::Registry>& registry);
  ~MetricsEndpoint();
  // The port that is bound; 0 when off.
  int port() const { return port_; }

 private:
  MetricsEndpoint() = default;
  std::unique_ptr<prometheus::Exposer> exposer_;
  int port_ = 0;
};

// Registers tandem_build_info{version="..."} 1.
void AddBuildInfo(prometheus::Registry& registry, const std::string& daemon);

}  // namespace tandem::rpc
