#pragma once
// What the exit code of `tandem` says. Part of the interface: the README and --help list them.

namespace tandem::client {

enum ExitCode : int {
  kOk = 0,
  kFailed = 1,       // a job or a request failed
  kUsage = 2,        // wrong usage, an invalid job file, or a daemon that could not start
  kUnreachable = 3,  // a daemon does not answer
  kCancelled = 4,    // the job that was followed was cancelled
  kDetached = 130,   // Ctrl-C while following: the job goes on
};

}  // namespace tandem::client
