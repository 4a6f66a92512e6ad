#pragma once
// Client channels to the daemons.

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace tandem::rpc {

// A channel to `target` ("unix:/run/tandem/arbiter.sock" or "host:port") that reconnects after 20 to 100 ms and has its
// own connection. Messages up to 256 MiB.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& target);

// The socket of a daemon ("arbiter", "trainer", "inference") in a run directory, as a target.
std::string DaemonTarget(const std::string& run_dir, const std::string& daemon);

// Asks the health service until it answers SERVING, at most `timeout`. UNAVAILABLE names the target.
absl::Status WaitUntilServing(const std::string& target, absl::Duration timeout);

}  // namespace tandem::rpc
