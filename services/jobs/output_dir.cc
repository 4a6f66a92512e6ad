#include "services/jobs/output_dir.h"

#include <fcntl.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/unique_fd.h"

namespace tandem::jobs {

absl::Status ClaimOutputDir(const std::string& output_dir, absl::string_view resolved_yaml) {
  std::error_code error;
  std::filesystem::create_directories(output_dir, error);
  if (error) return ErrnoStatus(error.value(), "output_dir: make directory", output_dir);
  const std::string path = absl::StrCat(output_dir, "/job.yaml");
  // The claim is this file's creation; its content comes by rename.
  const UniqueFd claim(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!claim.valid() && errno == EEXIST) {
    return absl::AlreadyExistsError(
        absl::StrCat("output_dir: ", output_dir, " holds another job (job.yaml); give another directory or remove it"));
  }
  if (!claim.valid()) return ErrnoStatus(errno, "output_dir: make", path);
  absl::Status written = WriteFileAtomically(path, resolved_yaml);
  if (!written.ok()) ReleaseOutputDir(output_dir);
  return written;
}

void ReleaseOutputDir(const std::string& output_dir) {
  std::error_code ignored;
  std::filesystem::remove(absl::StrCat(output_dir, "/job.yaml"), ignored);
  std::filesystem::remove(output_dir, ignored);  // fails if anything else is in it, as it should
}

}  // namespace tandem::jobs
