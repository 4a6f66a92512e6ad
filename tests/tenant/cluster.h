#pragma once
// A real arbiter process and real tenant processes for a test, in a directory of their own.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tandem/v1/arbiter.grpc.pb.h"
#include "tests/tenant/child_process.h"
#include "tests/testing/testing.h"

namespace tandem::testing {

// A tenant process (scripted_tenant.cc).
class TenantProcess {
 public:
  TenantProcess(const std::string& run_dir, const std::string& name, int longest_unit_ms);
  // Sends a command and waits for its answer.
  std::string Do(const std::string& command);
  // The same in two halves, for commands that block.
  void Begin(const std::string& command) { process_.WriteLine(command); }
  std::string End(absl::Duration timeout = absl::Seconds(20)) { return process_.ReadLine(timeout); }
  // Waits until the events seen so far contain `event`; returns all of them.
  std::string AwaitEvent(const std::string& event);
  ChildProcess& process() { return process_; }

 private:
  ChildProcess process_;
  std::string events_;
};

class Cluster {
 public:
  // Starts an arbiter with a pool of 64 MiB and these further flags.
  explicit Cluster(std::vector<std::string> flags = {});
  ~Cluster();
  // Starts a tenant and connects it.
  std::unique_ptr<TenantProcess> Tenant(const std::string& name, int longest_unit_ms = 100);
  // A tenant that has not connected.
  std::unique_ptr<TenantProcess> Unconnected(const std::string& name, int longest_unit_ms = 100);

  v1::GetStateReply State();
  // Waits until `condition` holds of the state; fails the test after 10 s.
  v1::GetStateReply AwaitState(const std::string& what, const std::function<bool(const v1::GetStateReply&)>& condition);
  ChildProcess& arbiter() { return *arbiter_; }
  void RestartArbiter();
  const std::string& run_dir() const { return dir_.path(); }
  std::string ArbiterLog() const;

 private:
  void StartArbiter();
  TempDir dir_;
  std::vector<std::string> flags_;
  std::unique_ptr<ChildProcess> arbiter_;
  std::unique_ptr<v1::Arbiter::Stub> stub_;
};

// Command line of the arbiter on `run_dir`.
std::vector<std::string> ArbiterCommand(const std::string& run_dir, const std::vector<std::string>& flags);

}  // namespace tandem::testing
