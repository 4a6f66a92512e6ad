#pragma once
// The bytes of a lifeline message: a kind number, then its fields in order, little-endian, strings and lists with a
// 32-bit length. Pure; any thread.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/lifeline/message.h"

namespace tandem::lifeline {

// Largest encoded message.
inline constexpr size_t kMaxMessageBytes = 8192;

std::string Encode(const Message& message);
// DATA_LOSS for anything that Encode can not have made.
absl::StatusOr<Message> Decode(absl::string_view bytes);

}  // namespace tandem::lifeline
