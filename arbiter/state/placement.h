#pragma once
// Where a new segment goes: a pure function of what is there. Shared segments take whole blocks from the low end of the
// arena; private ones come from the high end and may lie over other tenants' private segments (overlay).

#include <cstdint>
#include <optional>

#include "arbiter/state/byte_ranges.h"

namespace tandem::arbiter {

// Offset of the lowest run of whole blocks of `bytes` bytes (a multiple of `block_bytes`) without a byte of `taken`.
std::optional<uint64_t> PlaceShared(uint64_t arena_bytes, uint64_t block_bytes, uint64_t bytes,
                                    const ByteRanges& taken);

// What a private segment must and would rather not lie on.
struct PrivateSurroundings {
  ByteRanges forbidden;       // shared segments, quarantined bytes, the tenant's own segments
  ByteRanges usually_kept;    // other tenants' segments that they keep at most yields
  ByteRanges sometimes_kept;  // other tenants' segments that they may keep
};

// Offset with the fewest usually kept bytes under the segment, then the fewest sometimes kept ones, then the highest.
std::optional<uint64_t> PlacePrivate(uint64_t arena_bytes, uint64_t bytes, const PrivateSurroundings& surroundings);

// The longest run of bytes outside `taken`; with `block_bytes` > 1 of whole blocks.
uint64_t LongestFreeRun(uint64_t arena_bytes, uint64_t block_bytes, const ByteRanges& taken);

}  // namespace tandem::arbiter
