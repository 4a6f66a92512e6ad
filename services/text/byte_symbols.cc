#include "services/text/byte_symbols.h"

#include "services/text/utf8.h"

namespace tandem::text {
namespace {

constexpr int kSymbols = 256 + 68;  // 68 bytes are not printable

bool IsPrintable(int byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

struct Alphabet {
  std::array<std::string, 256> symbol_of_byte;
  std::array<int, kSymbols> byte_of_code;  // -1: not a symbol
};

Alphabet MakeAlphabet() {
  Alphabet alphabet;
  alphabet.byte_of_code.fill(-1);
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const int code = IsPrintable(byte) ? byte : next++;
    alphabet.byte_of_code[static_cast<size_t>(code)] = byte;
    std::string& symbol = alphabet.symbol_of_byte[static_cast<size_t>(byte)];
    if (code < 0x80) {
      symbol = {static_cast<char>(code)};
    } else {
      symbol = {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
    }
  }
  return alphabet;
}

const Alphabet& TheAlphabet() {
  static const Alphabet* const alphabet = new Alphabet(MakeAlphabet());
  return *alphabet;
}

}  // namespace

const std::array<std::string, 256>& ByteSymbols() {
  return TheAlphabet().symbol_of_byte;
}

std::optional<std::string> BytesOfSymbols(absl::string_view token) {
  std::string bytes;
  while (!token.empty()) {
    const Utf8Char c = FirstChar(token);
    const int byte = c.code < kSymbols ? TheAlphabet().byte_of_code[c.code] : -1;
    if (byte < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(byte));
    token.remove_prefix(c.bytes);
  }
  return bytes;
}

}  // namespace tandem::text
