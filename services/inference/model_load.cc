#include "services/inference/model_load.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "services/checkpoint/checkpoint.h"
#include "services/transformer/transformer.h"

namespace tandem::inference {
namespace {

// A status of the same code whose text says first what failed.
absl::Status During(absl::string_view action, const absl::Status& status) {
  return {status.code(), absl::StrCat(action, ": ", status.message())};
}

absl::StatusOr<tenant::SetView> FillAndCommit(tenant::Session& session, tenant::Turn& turn, const PreparedLoad& load,
                                              const tenant::Segment& segment) {
  const absl::Span<float> weights(reinterpret_cast<float*>(segment.data), load.manifest.total_elements);
  TANDEM_RETURN_IF_ERROR(
      LoadWeights(load.dir, load.config, load.manifest, weights, [&session] { session.Progress(); }));
  const std::string manifest = ServedModelToJson(
      {.name = load.dir, .model_dir = load.dir, .config = load.config, .layout_hash = load.manifest.layout_hash});
  TANDEM_ASSIGN_OR_RETURN(tenant::SetView set, session.CreateSet(load.dir, segment, {}, manifest));
  // Nobody could see the weights before; the empty window gives them their version.
  absl::Status status = turn.BeginWrite(set.id);
  if (status.ok()) {
    const absl::StatusOr<uint64_t> version = turn.Commit(set.id, "{}");
    if (version.ok()) {
      set.state = tenant::SetState::kCommitted;
      set.version = *version;
      return set;
    }
    status = version.status();
  }
  session.RetireSet(set.id).IgnoreError();
  return status;
}

}  // namespace

absl::StatusOr<PreparedLoad> PrepareLoad(const std::string& dir) {
  PreparedLoad load{.dir = dir, .config = {}, .manifest = {}};
  TANDEM_ASSIGN_OR_RETURN(load.config, LoadModelConfig(dir));
  if (const int group = load.config.num_attention_heads / load.config.num_key_value_heads; group > kMaxQueryGroup) {
    return absl::InvalidArgumentError(absl::StrCat(
        dir, "/config.json: ", group, " attention heads share a key head; supported are at most ", kMaxQueryGroup));
  }
  load.manifest = MakeWeightManifest(load.config);
  TANDEM_RETURN_IF_ERROR(CheckWeightFiles(dir, load.manifest).status());
  return load;
}

absl::StatusOr<OwnSet> LoadIntoPool(tenant::Session& session, tenant::Turn& turn, const PreparedLoad& load,
                                    const std::string& segment_name) {
  absl::StatusOr<tenant::Segment> segment = session.CreateShared(segment_name, load.manifest.bytes());
  if (!segment.ok()) {
    return During(absl::StrCat("no room for the ", load.manifest.bytes(), " bytes of weights of '", load.dir, "'"),
                  segment.status());
  }
  absl::StatusOr<tenant::SetView> set = FillAndCommit(session, turn, load, *segment);
  if (set.ok()) return OwnSet{.set = *std::move(set), .segment = *std::move(segment)};
  if (const absl::Status released = session.Release(*segment); !released.ok()) {
    LOG_WARN("segment of a failed load not released: {}", released.ToString());
  }
  return set.status();
}

}  // namespace tandem::inference
