#include "common/rpc/server.h"

#include <fcntl.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/base/file.h"
#include "common/base/status.h"

namespace tandem::rpc {

absl::Status PrepareRunDir(const std::string& run_dir) {
  constexpr size_t kLongestName = sizeof("/inference.sock");
  if (run_dir.size() + kLongestName > sizeof(sockaddr_un::sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("run directory ", run_dir, " is too long for a socket path (",
                                                   run_dir.size(), " bytes): use one of at most ",
                                                   sizeof(sockaddr_un::sun_path) - kLongestName));
  }
  std::error_code error;
  std::filesystem::create_directories(run_dir, error);
  if (error)
    return absl::PermissionDeniedError(absl::StrCat("cannot make run directory ", run_dir, ": ", error.message()));
  struct stat info {};
  if (stat(run_dir.c_str(), &info) != 0) return ErrnoStatus(errno, "cannot stat", run_dir);
  if (info.st_uid != geteuid()) {
    return absl::PermissionDeniedError(absl::StrCat("run directory ", run_dir, " belongs to uid ", info.st_uid,
                                                    ", this process runs as ", geteuid(), ": choose another one"));
  }
  if (chmod(run_dir.c_str(), 0750) != 0) return ErrnoStatus(errno, "cannot chmod", run_dir);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(const ServerOptions& options) {
  static const bool plugins_ready = [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    return true;
  }();
  static_cast<void>(plugins_ready);

  auto result = std::unique_ptr<RpcServer>(new RpcServer);
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(256 << 20);
  builder.SetMaxSendMessageSize(256 << 20);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  unlink(options.socket_path.c_str());
  builder.AddListeningPort(absl::StrCat("unix:", options.socket_path), grpc::InsecureServerCredentials());
  if (!options.tcp_address.empty()) {
    builder.AddListeningPort(options.tcp_address, grpc::InsecureServerCredentials(), &result->tcp_port_);
  }
  for (grpc::Service* service : options.services) builder.RegisterService(service);
  result->server_ = builder.BuildAndStart();
  if (result->server_ == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", options.socket_path,
                                               options.tcp_address.empty() ? "" : " and " + options.tcp_address,
                                               ": the address is taken or not permitted"));
  }
  result->socket_path_ = options.socket_path;
  if (chmod(options.socket_path.c_str(), 0660) != 0) return ErrnoStatus(errno, "cannot chmod", options.socket_path);
  result->SetServing(false);
  return result;
}

RpcServer::~RpcServer() {
  Drain(absl::ZeroDuration());
}

void RpcServer::SetServing(bool serving) {
  server_->GetHealthCheckService()->SetServingStatus(serving);
}

void RpcServer::Drain(absl::Duration grace) {
  if (server_ == nullptr) return;
  SetServing(false);
  server_->Shutdown(absl::ToChronoTime(absl::Now() + grace));
  server_->Wait();
  server_.reset();
}

SignalWaiter::SignalWaiter() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

int SignalWaiter::Wait() {
  int signal = 0;
  while (signal == 0) signal = WaitFor(absl::Hours(1));
  return signal;
}

int SignalWaiter::WaitFor(absl::Duration timeout) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  const timespec wait = absl::ToTimespec(timeout);
  const int signal = sigtimedwait(&signals, nullptr, &wait);
  return signal > 0 ? signal : 0;
}

absl::Status LockFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0640);  // stays open as long as the process lives
  if (fd < 0) return ErrnoStatus(errno, "cannot open", path);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    char text[32] = {};
    const ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    const std::string pid = n > 0 ? std::string(absl::StripTrailingAsciiWhitespace(text)) : "unknown";
    return absl::FailedPreconditionError(absl::StrCat("already running as pid ", pid, " (it holds ", path, ")"));
  }
  const std::string pid = absl::StrCat(getpid(), "\n");
  if (ftruncate(fd, 0) != 0 || write(fd, pid.data(), pid.size()) < 0) return ErrnoStatus(errno, "cannot write", path);
  return absl::OkStatus();
}

int BadStart(const std::string& daemon, const absl::Status& status) {
  std::fprintf(stderr, "%s: %s\n", daemon.c_str(), std::string(status.message()).c_str());
  return 2;
}

}  // namespace tandem::rpc
