#pragma once
// Starts a daemon's gRPC server: Unix socket in the run directory, optional TCP, health, reflection, drain on signal.
//
//   SignalWaiter signals;                       // first thing in main: blocks SIGTERM and SIGINT in all later threads
//   auto server = RpcServer::Start({...});      // exit code 2 with one line if it fails
//   server->SetServing(true);
//   signals.Wait();  server->Drain(5 s);

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tandem::rpc {

// Makes `run_dir` (0750) if needed and checks that it is ours. INVALID_ARGUMENT when its path is too long for a socket.
absl::Status PrepareRunDir(const std::string& run_dir);

struct ServerOptions {
  std::string socket_path;  // RUN_DIR/trainer.sock; mode 0660. An old socket file is replaced: hold a lock before.
  std::string tcp_address;  // "host:port", empty: none. Port 0 takes a free port.
  std::vector<grpc::Service*> services;  // not owned
};

class RpcServer {
 public:
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(const ServerOptions& options);
  ~RpcServer();

  // What the health service answers.
  void SetServing(bool serving);
  // Refuses new calls, gives running ones `grace`, then cancels them and waits for their handlers.
  void Drain(absl::Duration grace);
  int tcp_port() const { return tcp_port_; }

 private:
  RpcServer() = default;
  std::unique_ptr<grpc::Server> server_;
  std::string socket_path_;
  int tcp_port_ = 0;
};

// SIGTERM and SIGINT as a wait. Construct it before any other thread exists.
class SignalWaiter {
 public:
  SignalWaiter();
  // Returns the signal that came.
  int Wait();
  // Waits at most `timeout`; 0 if none came.
  int WaitFor(absl::Duration timeout);
};

// Takes an exclusive lock on `path` and writes this pid into it; FAILED_PRECONDITION names the pid that holds it. The
// lock lasts as long as the process.
absl::Status LockFile(const std::string& path);

// Prints "tandem-x: text" to standard error and returns 2, the exit code of a bad start.
int BadStart(const std::string& daemon, const absl::Status& status);

}  // namespace tandem::rpc
