#include "services/trainer/trainer_options.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"

namespace tandem::trainer {

absl::Status TrainerOptions::Resolve() {
  if (run_dir.empty()) return absl::InvalidArgumentError("--run_dir is empty: name the arbiter's run directory");
  if (threads < 0 || threads > 1024) {
    return absl::InvalidArgumentError(absl::StrCat("--threads=", threads, " must lie in 0 .. 1024"));
  }
  if (longest_unit_ms < 100 || longest_unit_ms > 60'000) {
    return absl::InvalidArgumentError(absl::StrCat("--longest_unit_ms=", longest_unit_ms, " must lie in 100 .. 60000"));
  }
  if (state_dir.empty()) state_dir = run_dir;
  std::error_code error;
  std::filesystem::create_directories(state_dir, error);
  return error ? ErrnoStatus(error.value(), "--state_dir: make", state_dir) : absl::OkStatus();
}

std::string TrainerOptions::ToString() const {
  return absl::StrCat("run_dir=", run_dir, " state_dir=", state_dir, " threads=", threads,
                      " longest_unit_ms=", longest_unit_ms, " metrics_address=", metrics_address,
                      " tcp=", tcp.empty() ? "off" : tcp, " log_level=", log_level);
}

}  // namespace tandem::trainer
