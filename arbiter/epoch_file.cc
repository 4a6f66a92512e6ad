#include "arbiter/epoch_file.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status.h"

namespace tandem::arbiter {

absl::StatusOr<uint32_t> RaiseEpoch(const std::string& path) {
  uint32_t epoch = 0;
  const absl::StatusOr<std::string> text = ReadFile(path, /*max_bytes=*/64);
  if (text.ok()) {
    if (!absl::SimpleAtoi(*text, &epoch) || epoch == UINT32_MAX) {
      return absl::DataLossError(absl::StrCat(path,
                                              " does not hold a start number; remove it if no tenant of an "
                                              "earlier arbiter runs any more"));
    }
  } else if (text.status().code() != absl::StatusCode::kNotFound) {
    return text.status();
  }
  ++epoch;
  TANDEM_RETURN_IF_ERROR(WriteFileAtomically(path, absl::StrCat(epoch, "\n")));
  return epoch;
}

}  // namespace tandem::arbiter
