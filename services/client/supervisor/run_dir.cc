#include "services/client/supervisor/run_dir.h"

#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/rpc/server.h"

namespace tandem::client {

RunDir RunDir::Default(const char* tandem_run_dir, const char* xdg_runtime_dir, uid_t uid) {
  if (tandem_run_dir != nullptr && *tandem_run_dir != '\0') return RunDir(tandem_run_dir);
  if (xdg_runtime_dir != nullptr && *xdg_runtime_dir != '\0') return RunDir(absl::StrCat(xdg_runtime_dir, "/tandem"));
  return RunDir(absl::StrCat("/tmp/tandem-", uid));
}

std::string RunDir::Socket(absl::string_view daemon) const {
  return absl::StrCat(path_, "/", daemon, ".sock");
}
std::string RunDir::Log(absl::string_view name) const {
  return absl::StrCat(path_, "/log/", name, ".log");
}
std::string RunDir::PidFile(absl::string_view daemon) const {
  return absl::StrCat(path_, "/", daemon, ".pid");
}

absl::Status RunDir::Make() const {
  TANDEM_RETURN_IF_ERROR(rpc::PrepareRunDir(path_));
  const std::string logs = absl::StrCat(path_, "/log");
  if (mkdir(logs.c_str(), 0750) != 0 && errno != EEXIST) return ErrnoStatus(errno, "make", logs);
  return absl::OkStatus();
}

}  // namespace tandem::client
