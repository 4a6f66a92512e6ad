#pragma once
// A child process of a test: its standard input and output as pipes of lines, its standard error in a file. Killed when
// the object goes.

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/unique_fd.h"

namespace tandem::testing {

class ChildProcess {
 public:
  // `command` is the path of the program and its arguments.
  ChildProcess(const std::vector<std::string>& command, const std::string& stderr_path);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  void WriteLine(const std::string& line);
  // The next line of its output; "" at its end; fails the test and returns "timeout" after `timeout`.
  std::string ReadLine(absl::Duration timeout = absl::Seconds(20));
  void Signal(int signal) const;
  // Waits for its end: the exit code, or minus the signal that ended it.
  int Wait();

 private:
  pid_t pid_ = -1;
  bool waited_ = false;
  UniqueFd input_, output_;
  std::string buffer_;
};

}  // namespace tandem::testing
