#include "arbiter/state/placement.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace tandem::arbiter {
namespace {

// The runs outside `taken`, shrunk to whole blocks.
ByteRanges FreeRuns(uint64_t arena_bytes, uint64_t block_bytes, const ByteRanges& taken) {
  ByteRanges free(ByteRange{0, arena_bytes});
  free.Remove(taken);
  ByteRanges whole;
  for (const ByteRange& run : free.ranges()) {
    const uint64_t begin = (run.begin + block_bytes - 1) / block_bytes * block_bytes;
    const uint64_t end = run.end / block_bytes * block_bytes;
    if (begin < end) whole.Add(ByteRange{begin, end});
  }
  return whole;
}

}  // namespace

std::optional<uint64_t> PlaceShared(uint64_t arena_bytes, uint64_t block_bytes, uint64_t bytes,
                                    const ByteRanges& taken) {
  for (const ByteRange& run : FreeRuns(arena_bytes, block_bytes, taken).ranges()) {
    if (run.bytes() >= bytes) return run.begin;
  }
  return std::nullopt;
}

std::optional<uint64_t> PlacePrivate(uint64_t arena_bytes, uint64_t bytes, const PrivateSurroundings& surroundings) {
  if (bytes > arena_bytes) return std::nullopt;
  // The overlaps are piecewise linear in the offset, so the best place begins or ends at an edge of something, or
  // of the arena.
  std::set<uint64_t> candidates = {0, arena_bytes - bytes};
  for (const ByteRanges* edges : {&surroundings.forbidden, &surroundings.usually_kept, &surroundings.sometimes_kept}) {
    for (const ByteRange& range : edges->ranges()) {
      for (const uint64_t edge : {range.begin, range.end}) {
        if (edge + bytes <= arena_bytes) candidates.insert(edge);
        if (edge >= bytes) candidates.insert(edge - bytes);
      }
    }
  }
  std::optional<std::tuple<uint64_t, uint64_t, uint64_t>> best;  // costs, then distance from the high end
  for (const uint64_t offset : candidates) {
    const ByteRange range{offset, offset + bytes};
    if (surroundings.forbidden.Overlaps(range)) continue;
    const std::tuple cost{surroundings.usually_kept.OverlapBytes(range),
                          surroundings.sometimes_kept.OverlapBytes(range), arena_bytes - offset};
    if (!best || cost < *best) best = cost;
  }
  if (!best) return std::nullopt;
  return arena_bytes - std::get<2>(*best);
}

uint64_t LongestFreeRun(uint64_t arena_bytes, uint64_t block_bytes, const ByteRanges& taken) {
  uint64_t longest = 0;
  for (const ByteRange& run : FreeRuns(arena_bytes, block_bytes, taken).ranges()) {
    longest = std::max(longest, run.bytes());
  }
  return longest;
}

}  // namespace tandem::arbiter
