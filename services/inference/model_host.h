#pragma once
// The served model's half of the engine: which set is served, its mapping, the private segments, and the generator over
// them. Everything here ends with the session (the pool); the engine makes a new one for a new session.
//
// One thread: the engine's. Weights, cache and workspace are touched only while the engine holds the turn.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "kernels/kernels.h"
#include "services/inference/generator.h"
#include "services/inference/model_load.h"
#include "services/inference/served_choice.h"
#include "services/inference/served_model.h"
#include "services/tenant/session.h"

namespace tandem::inference {

// What requests need to know of the model that is served.
struct ServedState {
  std::shared_ptr<const ServedModel> model;  // null: nothing is served, `status` says why
  absl::Status status = absl::UnavailableError("no model is served yet; try again later");
  uint64_t version = 0;
};

// This service's name as a tenant.
inline constexpr const char* kTenant = "inference";

class ModelHost {
 public:
  // `session` and the other references must outlive the host. kv_bytes 0: a quarter of the arena.
  ModelHost(tenant::Session& session, Kernels& kernels, const Clock& clock, uint64_t kv_bytes,
            const GeneratorLimits& limits);
  ~ModelHost();

  // Makes the cache's segment.
  absl::Status Init();

  // Serves what should be served of these sets: maps, unmaps, retires. Safe to call at any time, with or without the
  // turn.
  void Adopt(const std::vector<tenant::SetView>& sets);
  // At a grant: Adopt, then brings the generator to the granted version and drops the cache if its contents are lost.
  void BeginTurn(const tenant::Turn& turn);
  // Sets changed while the turn is held.
  void RefreshInTurn();
  // The arbiter wants a foreign segment unmapped.
  void Unmap(uint64_t segment_id);

  // Loads a directory into an own set and serves it; replaces an earlier own set.
  absl::Status Load(tenant::Turn& turn, const PreparedLoad& load);
  // Whether Load would be refused because of a job.
  absl::Status MayLoadNow() const;
  // Retires the own set, if any.
  void Release();

  const ServedState& served() const { return served_; }
  // Null while nothing is served.
  Generator* generator() { return generator_.get(); }
  const float* weights() const { return reinterpret_cast<const float*>(weights_.data); }
  const tenant::Segment& kv() const { return kv_; }
  // What is served is another tenant's set.
  bool serves_job() const { return served_.model != nullptr && weights_foreign_; }

 private:
  absl::Status Serve(const tenant::SetView& set);
  void StopServing(const absl::Status& why);
  void Unload(const absl::Status& why);
  void SetVersion();
  std::vector<tenant::SetView> Known(const std::vector<tenant::SetView>& sets) const;
  void RetireOwn();

  tenant::Session& session_;
  Kernels& kernels_;
  const Clock& clock_;
  uint64_t kv_bytes_;
  GeneratorLimits limits_;
  tenant::Segment kv_;
  tenant::Segment workspace_;
  std::optional<OwnSet> own_;
  int loads_ = 0;

  ServedState served_;
  tenant::Segment weights_;  // mapping of the served set
  bool weights_foreign_ = false;
  std::unique_ptr<Transformer> transformer_;
  std::unique_ptr<Generator> generator_;
};

}  // namespace tandem::inference
