#pragma once
// Everything of a job that scales with the model, as segments of the pool: the weights (shared, a set that inference
// reads), moments, gradients and activations (private). There is no other buffer of that size. The moments are not
// registered with the set: an ended job's weights are served on, and a set's private segments live as long as it does.
// One thread (the job's). Contents are touched only while the turn is held, except that the weights are the trainer's
// own to read at any time, and to write before the set exists.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "services/checkpoint/weight_manifest.h"
#include "services/tenant/session.h"

namespace tandem::trainer {

// Bytes that a job needs in the pool. Weights stand alone; the private segments may lie under other tenants' ones.
struct MemoryNeed {
  uint64_t weights = 0, moments = 0, gradients = 0, activations = 0;
  uint64_t total() const { return weights + moments + gradients + activations; }
  // "weights 538.1 MB + moments 1076.2 MB + ..."
  std::string ToString() const;
};

MemoryNeed NeedOf(const WeightManifest& manifest, uint64_t activation_bytes);

// RESOURCE_EXHAUSTED with the whole sum, what is missing and the remedy, unless the need fits into an arena of that
// size.
absl::Status CheckFits(const MemoryNeed& need, uint64_t arena_bytes);

class TrainingMemory {
 public:
  // Makes the segments: LABEL.weights (`label` is used once in a session: an ended job's weights may still be there),
  // moments, gradients, activations. On an error those made so far are released again. Contents are undefined.
  static absl::StatusOr<std::unique_ptr<TrainingMemory>> Make(tenant::Session& session, const std::string& label,
                                                              const WeightManifest& manifest, const MemoryNeed& need);
  // Releases what is still owned: all segments, or the private ones only after KeepServing.
  ~TrainingMemory();

  absl::Span<float> weights() const { return {reinterpret_cast<float*>(weights_.data), elements_}; }
  absl::Span<float> gradients() const { return {reinterpret_cast<float*>(gradients_.data), elements_}; }
  absl::Span<float> m() const { return {reinterpret_cast<float*>(moments_.data), elements_}; }
  absl::Span<float> v() const { return {reinterpret_cast<float*>(moments_.data) + elements_, elements_}; }
  std::byte* activations() const { return activations_.data; }

  // Makes the set of the weights, once. `served` is SetInfo.manifest.
  absl::Status CreateSet(const std::string& name, const std::string& served);
  uint64_t set_id() const { return set_id_; }

  // What a yield keeps between steps, and between two packs of a step.
  std::vector<const tenant::Segment*> KeepBetweenSteps() const { return {&moments_}; }
  std::vector<const tenant::Segment*> KeepWithinStep() const { return {&moments_, &gradients_}; }

  // A set that outlives the job: its weights stay served. The caller retires the set and releases the segment.
  struct Served {
    uint64_t set_id = 0;
    tenant::Segment weights;
  };
  Served KeepServing();

 private:
  TrainingMemory(tenant::Session& session, uint64_t elements) : session_(session), elements_(elements) {}
  absl::Status MakeSegments(const std::string& label, uint64_t activation_bytes);

  tenant::Session& session_;
  const size_t elements_;
  tenant::Segment weights_, moments_, gradients_, activations_;
  uint64_t set_id_ = 0;
  bool serving_on_ = false;
};

}  // namespace tandem::trainer
