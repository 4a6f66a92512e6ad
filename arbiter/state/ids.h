#pragma once
// Numbers that name things inside one arbiter. None is ever reused; 0 is "none".

#include <cstdint>

namespace tandem::arbiter {

using SessionId = uint64_t;
using SegmentId = uint64_t;
using SetId = uint64_t;
// Number of a turn: epoch x 2^32 + counter, so it grows over restarts too.
using Token = uint64_t;

}  // namespace tandem::arbiter
