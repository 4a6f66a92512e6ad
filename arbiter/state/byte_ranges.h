#pragma once
// A set of bytes of an arena as sorted, disjoint, non-touching half-open ranges. Pure; not thread-safe.

#include <cstdint>
#include <utility>
#include <vector>

namespace tandem::arbiter {

struct ByteRange {
  uint64_t begin = 0;
  uint64_t end = 0;  // one past the last byte
  uint64_t bytes() const { return end - begin; }
  bool Overlaps(const ByteRange& other) const { return begin < other.end && other.begin < end; }
  bool operator==(const ByteRange&) const = default;
};

class ByteRanges {
 public:
  ByteRanges() = default;
  explicit ByteRanges(ByteRange range) { Add(range); }

  void Add(ByteRange range);
  void Add(const ByteRanges& other);
  void Remove(ByteRange range);
  void Remove(const ByteRanges& other);
  void Clear() { ranges_.clear(); }

  bool empty() const { return ranges_.empty(); }
  uint64_t bytes() const;
  bool Overlaps(ByteRange range) const { return OverlapBytes(range) > 0; }
  uint64_t OverlapBytes(ByteRange range) const;
  ByteRanges Intersection(ByteRange range) const;
  ByteRanges Intersection(const ByteRanges& other) const;
  const std::vector<ByteRange>& ranges() const& { return ranges_; }
  std::vector<ByteRange> ranges() && { return std::move(ranges_); }  // so that a loop over a temporary is safe

 private:
  std::vector<ByteRange> ranges_;
};

}  // namespace tandem::arbiter
