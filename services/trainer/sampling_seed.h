#pragma once
// Keys of the random numbers of a job's samples: a function of the job's seed and what is sampled alone, so that a
// resumed job draws the same.

#include <cstdint>

#include "common/base/philox.h"

namespace tandem::trainer {

enum class SampleKind : uint64_t { kGenerationBatch = 1, kEvaluation = 2 };

// Key for generation batch `index` (kEvaluation: 0). The streams lie apart from those that order rows.
inline uint64_t SamplingSeed(uint64_t job_seed, SampleKind kind, int64_t index) {
  const auto words = Philox(job_seed, static_cast<uint64_t>(index), (uint64_t{1} << 62) + static_cast<uint64_t>(kind));
  return (static_cast<uint64_t>(words[0]) << 32) | words[1];
}

}  // namespace tandem::trainer
