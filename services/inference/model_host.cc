#include "services/inference/model_host.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"

namespace tandem::inference {

using tenant::SetView;

ModelHost::ModelHost(tenant::Session& session, Kernels& kernels, const Clock& clock, uint64_t kv_bytes,
                     const GeneratorLimits& limits)
    : session_(session), kernels_(kernels), clock_(clock), kv_bytes_(kv_bytes), limits_(limits) {}

ModelHost::~ModelHost() = default;

absl::Status ModelHost::Init() {
  const uint64_t bytes = kv_bytes_ != 0 ? kv_bytes_ : session_.arena_bytes() / 4;
  TANDEM_ASSIGN_OR_RETURN(kv_, session_.CreatePrivate({.name = "kv_cache", .bytes = bytes, .may_evict = true}));
  LOG_INFO("KV cache: {} MiB of a pool of {} MiB", bytes >> 20, session_.arena_bytes() >> 20);
  return absl::OkStatus();
}

// The list may lag behind what this service did itself: of its own sets only the current one counts.
std::vector<SetView> ModelHost::Known(const std::vector<SetView>& sets) const {
  std::vector<SetView> known;
  for (const SetView& set : sets) {
    if (set.tenant != kTenant) known.push_back(set);
  }
  if (own_) known.push_back(own_->set);
  return known;
}

void ModelHost::Adopt(const std::vector<SetView>& sets) {
  const ServedChoice choice = ChooseServed(Known(sets), own_ ? own_->set.id : 0);
  if (choice.retire_own) RetireOwn();
  absl::Status status = absl::UnavailableError("no model is served: load one with LoadModel or start a job");
  if (choice.served) {
    status = Readable(*choice.served);
    if (status.ok()) status = Serve(*choice.served);
  }
  if (!status.ok()) StopServing(status);
}

absl::Status ModelHost::Serve(const SetView& set) {
  if (served_.model != nullptr && served_.model->set_id == set.id) {
    served_.version = std::max(served_.version, set.version);
    return absl::OkStatus();
  }
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<const ServedModel> model, MakeServedModel(set));
  Unload(absl::UnavailableError(absl::StrCat("the served model is now '", model->name, "'; send the request again")));
  const bool own = own_ && own_->set.id == set.id;
  TANDEM_ASSIGN_OR_RETURN(weights_, own ? own_->segment : session_.MapSet(set));
  weights_foreign_ = !own;
  if (weights_.bytes < model->manifest.bytes()) {
    return absl::FailedPreconditionError(absl::StrCat("the segment of '", model->name, "' holds ", weights_.bytes,
                                                      " bytes, its weights need ", model->manifest.bytes()));
  }
  transformer_ = std::make_unique<Transformer>(model->config, model->manifest, kernels_);
  limits_.kv_blocks = static_cast<int>(std::min<uint64_t>(kv_.bytes / transformer_->KvBytes(1), 1 << 30));
  if (limits_.kv_blocks == 0) {
    return absl::ResourceExhaustedError(absl::StrCat("kv_bytes is ", kv_.bytes, ", one KV block of '", model->name,
                                                     "' takes ", transformer_->KvBytes(1), ": raise kv_bytes"));
  }
  TANDEM_ASSIGN_OR_RETURN(
      workspace_,
      session_.CreatePrivate({.name = "workspace", .bytes = Generator::WorkspaceBytes(*transformer_, limits_)}));
  generator_ = std::make_unique<Generator>(*transformer_, kernels_, clock_, limits_,
                                           GeneratorMemory{.kv = kv_.data, .workspace = workspace_.data});
  LOG_INFO("serving '{}' set={} version={}: {} MiB of weights, {} KV blocks, {} MiB of workspace", model->name, set.id,
           set.version, model->manifest.bytes() >> 20, limits_.kv_blocks, workspace_.bytes >> 20);
  served_ = {.model = std::move(model), .status = absl::OkStatus(), .version = set.version};
  return absl::OkStatus();
}

void ModelHost::StopServing(const absl::Status& why) {
  if (served_.model != nullptr || served_.status != why) {
    LOG_INFO("not serving: {}", std::string(why.message()));
  }
  Unload(why);
}

void ModelHost::Unload(const absl::Status& why) {
  if (generator_ != nullptr) generator_->EndAll(absl::UnavailableError(why.message()));
  generator_.reset();
  transformer_.reset();
  if (workspace_.id != 0) session_.Release(std::exchange(workspace_, {})).IgnoreError();
  if (weights_.id != 0 && weights_foreign_) session_.UnmapSegment(weights_.id).IgnoreError();
  weights_ = {};
  served_ = {.model = nullptr, .status = why, .version = 0};
}

void ModelHost::BeginTurn(const tenant::Turn& turn) {
  Adopt(turn.sets());
  if (generator_ != nullptr && turn.Lost(kv_)) generator_->DropCache();
  SetVersion();
}

void ModelHost::RefreshInTurn() {
  Adopt(session_.Sets());
  SetVersion();
}

void ModelHost::SetVersion() {
  if (generator_ == nullptr) return;
  generator_->SetVersion({.set_id = served_.model->set_id, .version = served_.version});
}

void ModelHost::Unmap(uint64_t segment_id) {
  if (weights_.id != segment_id || !weights_foreign_) return;
  StopServing(absl::UnavailableError("the set that was served is retired; try again later"));
}

absl::Status ModelHost::Load(tenant::Turn& turn, const PreparedLoad& load) {
  TANDEM_RETURN_IF_ERROR(MayLoadNow());
  const std::string name = absl::StrCat("weights-", ++loads_);
  absl::StatusOr<OwnSet> loaded = LoadIntoPool(session_, turn, load, name);
  if (absl::IsResourceExhausted(loaded.status()) && own_) {
    RetireOwn();
    loaded = LoadIntoPool(session_, turn, load, name);
  }
  if (!loaded.ok()) return loaded.status();
  RetireOwn();
  own_ = *std::move(loaded);
  RefreshInTurn();
  return served_.status;
}

absl::Status ModelHost::MayLoadNow() const {
  return MayLoad(Known(session_.Sets()), own_ ? own_->set.id : 0);
}

void ModelHost::Release() {
  RetireOwn();
  Adopt(session_.Sets());
}

void ModelHost::RetireOwn() {
  if (!own_) return;
  const OwnSet own = *std::exchange(own_, std::nullopt);
  if (weights_.id == own.segment.id) {
    StopServing(absl::UnavailableError(absl::StrCat("'", own.set.name, "' is retired; try again later")));
  }
  LOG_INFO("retiring own set={} '{}'", own.set.id, own.set.name);
  if (const absl::Status status = session_.RetireSet(own.set.id); !status.ok()) {
    LOG_WARN("own set not retired: {}", status.ToString());
  }
}

}  // namespace tandem::inference
