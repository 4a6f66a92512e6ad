#include "common/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/unique_fd.h"

namespace tandem {

absl::Status ErrnoStatus(int error, absl::string_view action, absl::string_view path) {
  const std::string text = absl::StrCat(action, " ", path, ": ", std::strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(text);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(text);
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
    case EMFILE:
      return absl::ResourceExhaustedError(text);
    case EEXIST:
      return absl::AlreadyExistsError(text);
    default:
      return absl::UnavailableError(text);
  }
}

absl::StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot open", path);
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "cannot stat", path);
  if (S_ISDIR(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, " is a directory, not a file"));
  std::string content;
  char buffer[1 << 16];
  while (true) {
    const ssize_t n = read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, "cannot read", path);
    if (n == 0) return content;
    content.append(buffer, static_cast<size_t>(n));
    if (content.size() > max_bytes) {
      return absl::InvalidArgumentError(absl::StrCat(path, " is larger than ", max_bytes, " bytes"));
    }
  }
}

namespace {

absl::Status WriteAll(int fd, absl::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t n = write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, "cannot write", path);
    content.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::Status WriteAndSync(const std::string& path, absl::string_view content) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot create", path);
  TANDEM_RETURN_IF_ERROR(WriteAll(fd.get(), content, path));
  if (fsync(fd.get()) != 0) return ErrnoStatus(errno, "cannot sync", path);
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteFileAtomically(const std::string& path, absl::string_view content) {
  const std::string temporary = path + ".tmp";
  absl::Status written = WriteAndSync(temporary, content);
  if (written.ok() && std::rename(temporary.c_str(), path.c_str()) != 0) {
    written = ErrnoStatus(errno, "cannot rename to", path);
  }
  if (!written.ok()) {
    unlink(temporary.c_str());
    return written;
  }
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return SyncDirectory(parent.empty() ? "." : parent);
}

absl::Status SyncDirectory(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot open directory", path);
  if (fsync(fd.get()) != 0) return ErrnoStatus(errno, "cannot sync directory", path);
  return absl::OkStatus();
}

}  // namespace tandem
