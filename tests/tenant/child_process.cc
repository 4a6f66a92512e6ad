#include "tests/tenant/child_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>

#include "absl/time/clock.h"
#include "common/base/status.h"

namespace tandem::testing {

ChildProcess::ChildProcess(const std::vector<std::string>& command, const std::string& stderr_path) {
  int in[2], out[2];
  TANDEM_CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0, command[0]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, stderr_path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const int error = posix_spawn(&pid_, command[0].c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  TANDEM_CHECK(error == 0, "cannot start ", command[0]);
  close(in[0]);
  close(out[1]);
  input_.Reset(in[1]);
  output_.Reset(out[0]);
  std::signal(SIGPIPE, SIG_IGN);
}

ChildProcess::~ChildProcess() {
  if (waited_) return;
  kill(pid_, SIGKILL);
  Wait();
}

void ChildProcess::WriteLine(const std::string& line) {
  const std::string text = line + "\n";
  EXPECT_EQ(write(input_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size())) << line;
}

std::string ChildProcess::ReadLine(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (buffer_.find('\n') == std::string::npos) {
    pollfd entry{.fd = output_.get(), .events = POLLIN, .revents = 0};
    const int64_t left_ms = absl::ToInt64Milliseconds(deadline - absl::Now());
    if (left_ms <= 0 || poll(&entry, 1, static_cast<int>(left_ms)) <= 0) {
      ADD_FAILURE() << "process " << pid_ << " said nothing in " << timeout;
      return "timeout";
    }
    char bytes[4096];
    const ssize_t size = read(output_.get(), bytes, sizeof bytes);
    if (size <= 0) return "";
    buffer_.append(bytes, static_cast<size_t>(size));
  }
  const size_t end = buffer_.find('\n');
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 1);
  return line;
}

void ChildProcess::Signal(int signal) const {
  EXPECT_EQ(kill(pid_, signal), 0);
}

int ChildProcess::Wait() {
  int status = 0;
  TANDEM_CHECK(waitpid(pid_, &status, 0) == pid_, pid_);
  waited_ = true;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace tandem::testing
