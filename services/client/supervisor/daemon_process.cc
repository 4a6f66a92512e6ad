#include "services/client/supervisor/daemon_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/file.h"
#include "common/base/status.h"

namespace tandem::client {
namespace {

constexpr off_t kMaxLogBytes = off_t{64} << 20;

UniqueFd OpenPidfd(pid_t pid) {
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

// Field 22 of /proc/PID/stat: clock ticks between boot and the process's start; empty if there is no such process.
std::string StartTime(pid_t pid) {
  const auto stat = ReadFile(absl::StrCat("/proc/", pid, "/stat"), 1 << 16);
  if (!stat.ok()) return "";
  const size_t after_name = stat->rfind(')');
  if (after_name == std::string::npos) return "";
  const std::vector<std::string> fields = absl::StrSplit(stat->substr(after_name + 2), ' ');
  constexpr size_t kStartTime = 22 - 3;  // the first field after the name is number 3
  return fields.size() > kStartTime ? fields[kStartTime] : "";
}

void RotateLog(const std::string& log) {
  struct stat info = {};
  if (stat(log.c_str(), &info) == 0 && info.st_size > kMaxLogBytes) std::rename(log.c_str(), (log + ".1").c_str());
}

// posix_spawn's two objects, freed together.
class SpawnSetup {
 public:
  explicit SpawnSetup(const std::string& log) {
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0640);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    sigset_t signals;
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes, &signals);
    sigfillset(&signals);
    posix_spawnattr_setsigdefault(&attributes, &signals);
  }
  ~SpawnSetup() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

}  // namespace

absl::StatusOr<DaemonProcess> DaemonProcess::Spawn(const std::vector<std::string>& argv, const std::string& log,
                                                   const std::string& pid_file) {
  RotateLog(log);
  std::vector<char*> arguments;
  arguments.reserve(argv.size() + 1);
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const SpawnSetup setup(log);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, arguments[0], &setup.actions, &setup.attributes, arguments.data(), environ);
  if (error != 0) return ErrnoStatus(error, "start", argv[0]);
  DaemonProcess process(pid, OpenPidfd(pid));
  if (!process.pidfd_.valid()) return ErrnoStatus(errno, "open a pidfd of", argv[0]);
  if (!pid_file.empty()) TANDEM_RETURN_IF_ERROR(WritePidFile(pid_file, pid));
  return process;
}

absl::Status WritePidFile(const std::string& pid_file, pid_t pid) {
  return WriteFileAtomically(pid_file, absl::StrCat(pid, " ", StartTime(pid), "\n"));
}

std::optional<DaemonProcess> DaemonProcess::Adopt(const std::string& pid_file) {
  const auto text = ReadFile(pid_file, 256);
  if (!text.ok()) return std::nullopt;
  const std::vector<std::string> fields = absl::StrSplit(*text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  pid_t pid = 0;
  if (fields.size() != 2 || !absl::SimpleAtoi(fields[0], &pid) || pid <= 0) return std::nullopt;
  DaemonProcess process(pid, OpenPidfd(pid));
  // The pidfd is held first: if the start time is the one written down, it is that process and stays it.
  if (!process.pidfd_.valid() || StartTime(pid) != fields[1] || process.Ended()) return std::nullopt;
  return process;
}

bool DaemonProcess::WaitEnd(absl::Duration timeout) const {
  pollfd event = {pidfd_.get(), POLLIN, 0};
  const absl::Time deadline = absl::Now() + timeout;
  while (true) {
    const int64_t left_ms = std::max<int64_t>(0, absl::ToInt64Milliseconds(deadline - absl::Now()));
    const int ready = poll(&event, 1, static_cast<int>(left_ms));
    if (ready > 0) return true;
    if (ready == 0) return false;
    TANDEM_CHECK(errno == EINTR, errno);
  }
}

std::string DaemonProcess::Reap() {
  siginfo_t info = {};
  if (waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED) != 0) return "ended";
  if (info.si_code == CLD_EXITED) return absl::StrCat("exit code ", info.si_status);
  return absl::StrCat("signal ", info.si_status);
}

void DaemonProcess::Signal(int signal) const {
  syscall(SYS_pidfd_send_signal, pidfd_.get(), signal, nullptr, 0);
}

std::vector<std::string> StopInOrder(const std::vector<std::string>& pid_files, absl::Duration grace) {
  std::vector<std::string> lines;
  for (const std::string& pid_file : pid_files) {
    const std::string name = std::filesystem::path(pid_file).stem();
    std::optional<DaemonProcess> process = DaemonProcess::Adopt(pid_file);
    if (process.has_value()) {
      process->Signal(SIGTERM);
      if (process->WaitEnd(grace)) {
        lines.push_back(absl::StrCat(name, " stopped"));
      } else {
        process->Signal(SIGKILL);
        const bool ended = process->WaitEnd(absl::Seconds(10));
        lines.push_back(absl::StrCat(name,
                                     ended ? " killed: it did not stop within " : " did not end even by SIGKILL; ",
                                     absl::FormatDuration(grace)));
      }
      process->Reap();
    }
    std::error_code ignored;
    std::filesystem::remove(pid_file, ignored);
  }
  return lines;
}

}  // namespace tandem::client
