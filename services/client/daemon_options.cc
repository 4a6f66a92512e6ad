#include "services/client/daemon_options.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "absl/strings/str_cat.h"
#include "common/base/unique_fd.h"

namespace tandem::client {
namespace {

std::string MetricsAddress(int port) {
  return port == 0 ? "off" : absl::StrCat("127.0.0.1:", port);
}

void AddSize(std::vector<std::string>& arguments, absl::string_view flag, uint64_t bytes) {
  if (bytes != 0) arguments.push_back(absl::StrCat(flag, "=", bytes));
}

void AddText(std::vector<std::string>& arguments, absl::string_view flag, const std::string& text) {
  if (!text.empty()) arguments.push_back(absl::StrCat(flag, "=", text));
}

}  // namespace

bool PortIsFree(int port) {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

void AddDaemonOptions(CLI::App& command, DaemonOptions& options) {
  command.add_option("--model", options.model, "Serve this Hugging Face directory until a job loads its own");
  command
      .add_option("--pool_bytes", options.pool_bytes,
                  "Memory of the pool, such as 2GiB (default: 4 GiB or half of what is free)")
      ->transform(CLI::AsSizeValue(false));
  command.add_option("--host_bytes", options.host_bytes, "Memory for kept contents (default: as much as the pool)")
      ->transform(CLI::AsSizeValue(false));
  command.add_option("--kv_bytes", options.kv_bytes, "Inference's KV cache (default: a quarter of the pool)")
      ->transform(CLI::AsSizeValue(false));
  command.add_option("--state_dir", options.state_dir, "Where the trainer keeps its jobs (default: the run directory)");
  command
      .add_option("--metrics_port", options.metrics_port,
                  "Prometheus on 127.0.0.1: the arbiter's port, trainer and inference have the next two; 0: off")
      ->check(CLI::Range(0, 65533))
      ->capture_default_str();
}

std::vector<std::string> ToArguments(const DaemonOptions& options) {
  std::vector<std::string> arguments;
  AddText(arguments, "--model", options.model);
  AddText(arguments, "--state_dir", options.state_dir);
  AddSize(arguments, "--pool_bytes", options.pool_bytes);
  AddSize(arguments, "--host_bytes", options.host_bytes);
  AddSize(arguments, "--kv_bytes", options.kv_bytes);
  arguments.push_back(absl::StrCat("--metrics_port=", options.metrics_port));
  return arguments;
}

std::vector<DaemonCommand> MakeDaemonCommands(const std::string& bin_dir, const RunDir& run_dir,
                                              const DaemonOptions& options) {
  const auto command = [&](const std::string& name, int port_offset) {
    const int port = options.metrics_port == 0 ? 0 : options.metrics_port + port_offset;
    return DaemonCommand{name,
                         {absl::StrCat(bin_dir, "/tandem-", name), absl::StrCat("--run_dir=", run_dir.path()),
                          absl::StrCat("--metrics_address=", MetricsAddress(port))}};
  };
  DaemonCommand arbiter = command("arbiter", 0);
  AddSize(arbiter.argv, "--pool_bytes", options.pool_bytes);
  AddSize(arbiter.argv, "--host_bytes", options.host_bytes);
  DaemonCommand trainer = command("trainer", 1);
  AddText(trainer.argv, "--state_dir", options.state_dir);
  DaemonCommand inference = command("inference", 2);
  AddText(inference.argv, "--model", options.model);
  AddSize(inference.argv, "--kv_bytes", options.kv_bytes);
  return {std::move(arbiter), std::move(inference), std::move(trainer)};
}

}  // namespace tandem::client
