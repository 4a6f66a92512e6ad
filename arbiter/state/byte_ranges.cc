#include "arbiter/state/byte_ranges.h"

#include <algorithm>

namespace tandem::arbiter {

void ByteRanges::Add(ByteRange range) {
  if (range.begin >= range.end) return;
  std::vector<ByteRange> merged;
  for (const ByteRange& old : ranges_) {
    if (old.end < range.begin || old.begin > range.end) {
      merged.push_back(old);
    } else {
      range = {std::min(range.begin, old.begin), std::max(range.end, old.end)};
    }
  }
  merged.insert(std::upper_bound(merged.begin(), merged.end(), range,
                                 [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; }),
                range);
  ranges_ = std::move(merged);
}

void ByteRanges::Add(const ByteRanges& other) {
  for (const ByteRange& range : other.ranges_) Add(range);
}

void ByteRanges::Remove(ByteRange range) {
  if (range.begin >= range.end) return;
  std::vector<ByteRange> left;
  for (const ByteRange& old : ranges_) {
    if (!old.Overlaps(range)) {
      left.push_back(old);
      continue;
    }
    if (old.begin < range.begin) left.push_back({old.begin, range.begin});
    if (old.end > range.end) left.push_back({range.end, old.end});
  }
  ranges_ = std::move(left);
}

void ByteRanges::Remove(const ByteRanges& other) {
  for (const ByteRange& range : other.ranges_) Remove(range);
}

uint64_t ByteRanges::bytes() const {
  uint64_t sum = 0;
  for (const ByteRange& range : ranges_) sum += range.bytes();
  return sum;
}

uint64_t ByteRanges::OverlapBytes(ByteRange range) const {
  return Intersection(range).bytes();
}

ByteRanges ByteRanges::Intersection(ByteRange range) const {
  ByteRanges common;
  for (const ByteRange& own : ranges_) {
    if (own.Overlaps(range)) common.ranges_.push_back({std::max(own.begin, range.begin), std::min(own.end, range.end)});
  }
  return common;
}

ByteRanges ByteRanges::Intersection(const ByteRanges& other) const {
  ByteRanges common;
  for (const ByteRange& range : other.ranges_) common.Add(Intersection(range));
  return common;
}

}  // namespace tandem::arbiter
