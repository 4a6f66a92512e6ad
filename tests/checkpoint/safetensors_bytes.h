#pragma once
// Safetensors files made by hand, byte by byte, so that they can be wrong.

#include <cstdint>
#include <cstring>
#include <string>

namespace tandem::testing {

// Header length, header, data. `length` < 0: the header's own.
inline std::string SafetensorsBytes(const std::string& header, const std::string& data, int64_t length = -1) {
  const uint64_t said = length < 0 ? header.size() : static_cast<uint64_t>(length);
  std::string bytes(sizeof said, '\0');
  std::memcpy(bytes.data(), &said, sizeof said);
  return bytes + header + data;
}

}  // namespace tandem::testing
