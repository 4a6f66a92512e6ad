#pragma once
// Whole files in and out, with errors that name the path and the reason.

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tandem {

// An absl::Status for the errno `error` of an operation on `path`: NOT_FOUND, PERMISSION_DENIED, RESOURCE_EXHAUSTED
// (disk full) or UNAVAILABLE; the text is "`action` `path`: reason".
absl::Status ErrnoStatus(int error, absl::string_view action, absl::string_view path);

// The content of `path`; refuses more than `max_bytes`.
absl::StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes = size_t{1} << 30);

// Replaces `path` atomically: writes a temporary file beside it, syncs it, renames it, syncs the directory.
absl::Status WriteFileAtomically(const std::string& path, absl::string_view content);

// Syncs a directory, so that names created, renamed or removed in it survive a crash.
absl::Status SyncDirectory(const std::string& path);

}  // namespace tandem
