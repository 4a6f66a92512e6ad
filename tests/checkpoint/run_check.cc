#include "tests/checkpoint/run_check.h"

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace tandem::testing {

CheckResult RunCheckSaved(const std::string& saved, const std::string& original) {
  const char* python = std::getenv("TANDEM_PYTHON");
  const std::string command =
      absl::StrCat("OMP_NUM_THREADS=1 timeout 100 ", python == nullptr ? "python3" : python, " ", TANDEM_CHECK_SAVED,
                   " ", saved, " ", original, " 2>/dev/null; test $? -ne 77 || exit 77");
  FILE* pipe = popen(command.c_str(), "r");
  TANDEM_CHECK(pipe != nullptr, command);
  CheckResult result{false, ""};
  char line[512];
  while (std::fgets(line, sizeof line, pipe) != nullptr) result.output += line;
  const int status = pclose(pipe);
  result.skipped = WIFEXITED(status) && WEXITSTATUS(status) == 77;
  return result;
}

}  // namespace tandem::testing
