#pragma once
// The model behind a served set, as requests see it: name, configuration, tokenizer, end tokens. Immutable once made
// and shared by all threads; it holds no weights.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/checkpoint/weight_manifest.h"
#include "services/tenant/session.h"
#include "services/text/tokenizer.h"

namespace tandem::inference {

struct ServedModel {
  uint64_t set_id = 0;
  std::string name;
  ModelConfig config;
  WeightManifest manifest;
  // Null if the tokenizer cannot be used; then `tokenizer_error` says why and only prompts of ids work.
  std::unique_ptr<text::Tokenizer> tokenizer;
  absl::Status tokenizer_error;
  std::vector<int> end_tokens;  // sorted: config.json's, generation_config.json's and the tokenizer's
};

// From a set's manifest. FAILED_PRECONDITION if the set's layout is not the one this build computes with, or its
// segment is smaller than the layout. A tokenizer that is not supported is no error here.
absl::StatusOr<std::shared_ptr<const ServedModel>> MakeServedModel(const tenant::SetView& set);

}  // namespace tandem::inference
