#include "common/base/philox.h"

#include <numeric>
#include <utility>

namespace tandem {

std::array<uint32_t, 4> Philox(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  std::array<uint32_t, 4> c = {static_cast<uint32_t>(counter_low), static_cast<uint32_t>(counter_low >> 32),
                               static_cast<uint32_t>(counter_high), static_cast<uint32_t>(counter_high >> 32)};
  uint32_t k0 = static_cast<uint32_t>(key);
  uint32_t k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

std::vector<int64_t> PhiloxPermutation(int64_t n, uint64_t seed, uint64_t stream) {
  std::vector<int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (int64_t i = n - 1; i > 0; --i) {
    const auto words = Philox(seed, static_cast<uint64_t>(i), stream);
    const uint64_t draw = (static_cast<uint64_t>(words[0]) << 32) | words[1];
    // The high half of a 64 x 64 bit product maps the draw to 0..i; its bias is below 2^-32 for any real n.
    const auto j = static_cast<int64_t>((static_cast<unsigned __int128>(draw) * static_cast<uint64_t>(i + 1)) >> 64);
    std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(j)]);
  }
  return order;
}

}  // namespace tandem
