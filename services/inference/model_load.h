#pragma once
// A Hugging Face directory into a shared set of this service's own.
//
//   PrepareLoad (any thread; reads headers only) -> LoadIntoPool (the engine's thread, inside a turn)

#include <string>

#include "absl/status/statusor.h"
#include "services/checkpoint/weight_manifest.h"
#include "services/tenant/session.h"

namespace tandem::inference {

struct PreparedLoad {
  std::string dir;
  ModelConfig config;
  WeightManifest manifest;
};

// Checks everything that can be checked without memory: config.json, that the weight files are there and their headers
// agree with the model. Errors name the file, the field and the remedy.
absl::StatusOr<PreparedLoad> PrepareLoad(const std::string& dir);

struct OwnSet {
  tenant::SetView set;
  tenant::Segment segment;
};

// Makes the segment, fills it, makes the set and commits it. RESOURCE_EXHAUSTED says what is missing and for what. A
// load that fails leaves nothing behind.
absl::StatusOr<OwnSet> LoadIntoPool(tenant::Session& session, tenant::Turn& turn, const PreparedLoad& load,
                                    const std::string& segment_name);

}  // namespace tandem::inference
