#pragma once
// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
// A number is a function of (key, counter) alone, so a result does not depend on who else draws, or in what order.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tandem {

// Four 32-bit words for a 64-bit key and a 128-bit counter (two 64-bit halves).
std::array<uint32_t, 4> Philox(uint64_t key, uint64_t counter_low, uint64_t counter_high = 0);

// A number in [0, 1) with 24 bits from one word.
inline float UniformFloat(uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1.0p-24F;
}
// A number in [0, 1) with 53 bits from two words.
inline double UniformDouble(uint32_t high, uint32_t low) {
  return static_cast<double>(((static_cast<uint64_t>(high) << 32) | low) >> 11) * 0x1.0p-53;
}

// The permutation of 0..n-1 of (seed, stream): Fisher-Yates with Philox draws. Same arguments, same permutation,
// everywhere.
std::vector<int64_t> PhiloxPermutation(int64_t n, uint64_t seed, uint64_t stream);

}  // namespace tandem
