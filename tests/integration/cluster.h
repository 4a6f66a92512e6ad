#pragma once
// The three real daemons in a directory of their own, run by the real CLI: for end-to-end tests in C++ (cluster.py is
// the same for Python). A failed test shows the logs.
//
//   Cluster cluster;  cluster.Up();  EXPECT_EQ(cluster.Run({"status"}).code, 0);

#include <sys/types.h>

#include <csignal>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "services/client/daemon_call.h"
#include "services/client/supervisor/run_dir.h"
#include "tests/testing/testing.h"

namespace tandem::testing {

// What a run of the CLI left.
struct CliResult {
  int code = -1;
  std::string out;
  std::string err;
};

// A command that still runs. Ends with the object (SIGKILL).
class RunningCli {
 public:
  RunningCli(pid_t pid, std::string out, std::string err) : pid_(pid), out_(std::move(out)), err_(std::move(err)) {}
  ~RunningCli();
  RunningCli(const RunningCli&) = delete;
  RunningCli& operator=(const RunningCli&) = delete;

  void Signal(int signal) const { kill(pid_, signal); }
  std::string out() const;  // standard output until now
  CliResult Wait(absl::Duration timeout = absl::Minutes(5));

 private:
  pid_t pid_;
  std::string out_, err_;  // paths
  bool ended_ = false;
};

class Cluster {
 public:
  Cluster();
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // `tandem up` with a pool of 512 MiB and without metrics; `options` are added.
  CliResult Up(const std::vector<std::string>& options = {});
  CliResult Down() { return Run({"down"}); }
  // Runs `tandem ARGUMENTS...` on this cluster to its end.
  CliResult Run(const std::vector<std::string>& arguments, const std::string& standard_input = "");
  std::unique_ptr<RunningCli> Start(const std::vector<std::string>& arguments, const std::string& standard_input = "");

  // Process of a daemon or of the supervisor by its pid file; 0 if there is none.
  pid_t Pid(const std::string& name) const;
  // Sends a signal and waits until that process has ended (SIGKILL, SIGTERM).
  void Kill(const std::string& name, int signal = SIGKILL);
  bool WaitServing(const std::string& daemon, absl::Duration timeout = absl::Seconds(60));

  const client::RunDir& run_dir() const { return run_dir_; }
  // A path in the cluster's directory.
  std::string File(const std::string& name) const { return temp_.File(name); }
  void Write(const std::string& name, const std::string& content) const;
  std::string Read(const std::string& name) const;
  // A checkpoint with random weights at File(name) by `tandem model init`.
  void MakeModel(const std::string& name, const std::vector<std::string>& options = {});

 private:
  TempDir temp_;
  client::RunDir run_dir_;
  int runs_ = 0;
};

// Calls `condition` every 20 ms until it is true; false after `timeout`.
bool Eventually(const std::function<bool()>& condition, absl::Duration timeout = absl::Seconds(30));

}  // namespace tandem::testing
