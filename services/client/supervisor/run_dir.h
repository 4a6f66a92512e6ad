#pragma once
// The run directory: where the daemons of one Tandem meet. Pure names, and the making of the directory.
//
//   arbiter.sock trainer.sock inference.sock   gRPC
//   lifeline.sock                              descriptors and identity (arbiter)
//   log/NAME.log                               standard output and error of each daemon and of the supervisor
//   NAME.pid                                   process id and start time of a daemon that the supervisor started
//   supervisor.lock, supervisor.json           held while a supervisor runs; what it knows of each daemon

#include <sys/types.h>

#include <array>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tandem::client {

// In the order in which they are stopped.
inline constexpr std::array<const char*, 3> kDaemons = {"trainer", "inference", "arbiter"};

class RunDir {
 public:
  explicit RunDir(std::string path) : path_(std::move(path)) {}

  // $TANDEM_RUN_DIR, else $XDG_RUNTIME_DIR/tandem, else /tmp/tandem-UID. Null or empty: not set.
  static RunDir Default(const char* tandem_run_dir, const char* xdg_runtime_dir, uid_t uid);

  const std::string& path() const { return path_; }
  std::string Socket(absl::string_view daemon) const;
  std::string Log(absl::string_view name) const;
  std::string PidFile(absl::string_view daemon) const;
  std::string SupervisorLock() const { return path_ + "/supervisor.lock"; }
  std::string SupervisorState() const { return path_ + "/supervisor.json"; }

  // Makes the directory (0750) and log/ in it. INVALID_ARGUMENT if the path is too long for a Unix socket;
  // PERMISSION_DENIED if it belongs to somebody else.
  absl::Status Make() const;

 private:
  std::string path_;
};

}  // namespace tandem::client
