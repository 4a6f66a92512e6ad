#include "tests/integration/cluster.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/rpc/channel.h"
#include "services/client/supervisor/daemon_process.h"

namespace tandem::testing {
namespace {

const std::string kCli = std::string(TANDEM_BIN_DIR) + "/tandem";  // set by CMake

std::string ReadOrEmpty(const std::string& path) {
  return ReadFile(path).value_or("");
}

pid_t Spawn(const std::vector<std::string>& command, const std::string& in, const std::string& out,
            const std::string& err) {
  std::vector<char*> argv;
  for (const std::string& argument : command) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, in.c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  TANDEM_CHECK(error == 0, command[0], " ", error);
  posix_spawn_file_actions_destroy(&actions);
  return pid;
}

}  // namespace

RunningCli::~RunningCli() {
  if (ended_) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

std::string RunningCli::out() const {
  return ReadOrEmpty(out_);
}

CliResult RunningCli::Wait(absl::Duration timeout) {
  int status = 0;
  ended_ = Eventually([&] { return waitpid(pid_, &status, WNOHANG) == pid_; }, timeout);
  EXPECT_TRUE(ended_) << "tandem still runs after " << absl::FormatDuration(timeout);
  return {ended_ && WIFEXITED(status) ? WEXITSTATUS(status) : -1, ReadOrEmpty(out_), ReadOrEmpty(err_)};
}

Cluster::Cluster() : run_dir_(temp_.File("run")) {}

Cluster::~Cluster() {
  Down();
  if (!::testing::Test::HasFailure()) return;
  for (const char* name : {"supervisor", "arbiter", "inference", "trainer"}) {
    const std::string log = ReadOrEmpty(run_dir_.Log(name));
    std::cerr << "---- end of " << name << "'s log\n" << log.substr(log.size() - std::min<size_t>(log.size(), 3000));
  }
}

CliResult Cluster::Up(const std::vector<std::string>& options) {
  std::vector<std::string> arguments = {"up"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  for (const std::string& option : {std::string("--pool_bytes=512MiB"), std::string("--metrics_port=0"),
                                    absl::StrCat("--state_dir=", File("state"))}) {
    const std::string flag = option.substr(0, option.find('=') + 1);
    const bool given = std::any_of(options.begin(), options.end(),
                                   [&](const std::string& other) { return absl::StartsWith(other, flag); });
    if (!given) arguments.push_back(option);
  }
  return Run(arguments);
}

CliResult Cluster::Run(const std::vector<std::string>& arguments, const std::string& standard_input) {
  return Start(arguments, standard_input)->Wait();
}

std::unique_ptr<RunningCli> Cluster::Start(const std::vector<std::string>& arguments,
                                           const std::string& standard_input) {
  const std::string base = File(absl::StrCat("cli-", runs_++));
  std::ofstream(base + ".in") << standard_input;
  std::vector<std::string> command = {kCli, absl::StrCat("--run_dir=", run_dir_.path())};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const pid_t pid = Spawn(command, base + ".in", base + ".out", base + ".err");
  return std::make_unique<RunningCli>(pid, base + ".out", base + ".err");
}

pid_t Cluster::Pid(const std::string& name) const {
  const auto process = client::DaemonProcess::Adopt(run_dir_.PidFile(name));
  return process.has_value() ? process->pid() : 0;
}

void Cluster::Kill(const std::string& name, int signal) {
  const auto process = client::DaemonProcess::Adopt(run_dir_.PidFile(name));
  ASSERT_TRUE(process.has_value()) << name << " does not run";
  process->Signal(signal);
  ASSERT_TRUE(process->WaitEnd(absl::Seconds(30))) << name;
}

bool Cluster::WaitServing(const std::string& daemon, absl::Duration timeout) {
  return rpc::WaitUntilServing(rpc::DaemonTarget(run_dir_.path(), daemon), timeout).ok();
}

void Cluster::Write(const std::string& name, const std::string& content) const {
  std::ofstream(File(name)) << content;
}

std::string Cluster::Read(const std::string& name) const {
  return ReadOrEmpty(File(name));
}

void Cluster::MakeModel(const std::string& name, const std::vector<std::string>& options) {
  std::vector<std::string> arguments = {"model", "init", absl::StrCat("--out=", File(name))};
  arguments.insert(arguments.end(), options.begin(), options.end());
  const CliResult result = Run(arguments);
  ASSERT_EQ(result.code, 0) << result.err;
}

bool Eventually(const std::function<bool()>& condition, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (!condition()) {
    if (absl::Now() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(20));
  }
  return true;
}

}  // namespace tandem::testing
