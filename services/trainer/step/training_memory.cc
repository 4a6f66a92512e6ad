#include "services/trainer/step/training_memory.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/log.h"
#include "common/base/status.h"

namespace tandem::trainer {
namespace {

std::string Megabytes(uint64_t bytes) {
  return absl::StrFormat("%.1f MB", static_cast<double>(bytes) / 1e6);
}

}  // namespace

std::string MemoryNeed::ToString() const {
  return absl::StrCat("weights ", Megabytes(weights), " + moments ", Megabytes(moments), " + gradients ",
                      Megabytes(gradients), " + activations ", Megabytes(activations), " = ", Megabytes(total()));
}

absl::Status CheckFits(const MemoryNeed& need, uint64_t arena_bytes) {
  if (need.total() <= arena_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the pool is too small: the job needs ", need.ToString(), ", the pool has ", Megabytes(arena_bytes),
                   ", ", Megabytes(need.total() - arena_bytes),
                   " are missing: start the arbiter with a larger pool_bytes, or lower pack_tokens (activations)"));
}

MemoryNeed NeedOf(const WeightManifest& manifest, uint64_t activation_bytes) {
  const uint64_t bytes = manifest.bytes();
  return {.weights = bytes, .moments = 2 * bytes, .gradients = bytes, .activations = activation_bytes};
}

absl::StatusOr<std::unique_ptr<TrainingMemory>> TrainingMemory::Make(tenant::Session& session, const std::string& label,
                                                                     const WeightManifest& manifest,
                                                                     const MemoryNeed& need) {
  TANDEM_RETURN_IF_ERROR(CheckFits(need, session.arena_bytes()));
  std::unique_ptr<TrainingMemory> memory(new TrainingMemory(session, manifest.total_elements));
  if (const absl::Status made = memory->MakeSegments(label, need.activations); !made.ok()) {
    return absl::Status(made.code(), absl::StrCat(made.message(), " (the job needs ", need.ToString(), ")"));
  }
  return memory;
}

absl::Status TrainingMemory::MakeSegments(const std::string& label, uint64_t activation_bytes) {
  const uint64_t bytes = elements_ * sizeof(float);
  TANDEM_ASSIGN_OR_RETURN(weights_, session_.CreateShared(label + ".weights", bytes));
  TANDEM_ASSIGN_OR_RETURN(moments_,
                          session_.CreatePrivate({.name = "moments", .bytes = 2 * bytes, .usually_kept = true}));
  const auto make_activations = [&]() -> absl::Status {
    TANDEM_ASSIGN_OR_RETURN(activations_, session_.CreatePrivate({.name = "activations", .bytes = activation_bytes}));
    return absl::OkStatus();
  };
  // A segment is one run of bytes and never moves: the larger one first finds room more often.
  if (activation_bytes >= bytes) TANDEM_RETURN_IF_ERROR(make_activations());
  TANDEM_ASSIGN_OR_RETURN(gradients_, session_.CreatePrivate({.name = "gradients", .bytes = bytes, .may_evict = true}));
  return activation_bytes >= bytes ? absl::OkStatus() : make_activations();
}

absl::Status TrainingMemory::CreateSet(const std::string& name, const std::string& served) {
  TANDEM_ASSIGN_OR_RETURN(const tenant::SetView set, session_.CreateSet(name, weights_, {}, served));
  set_id_ = set.id;
  return absl::OkStatus();
}

TrainingMemory::Served TrainingMemory::KeepServing() {
  serving_on_ = true;
  return {set_id_, weights_};
}

TrainingMemory::~TrainingMemory() {
  if (session_.arbiter_gone()) return;
  const auto warn = [](const absl::Status& status) {
    if (!status.ok()) LOG_WARN("releasing a job's memory: {}", status.ToString());
  };
  if (!serving_on_ && set_id_ != 0) warn(session_.RetireSet(set_id_));
  if (!serving_on_ && set_id_ == 0 && weights_.data != nullptr) warn(session_.Release(weights_));
  for (const tenant::Segment* segment : {&activations_, &gradients_, &moments_}) {
    if (segment->data != nullptr) warn(session_.Release(*segment));
  }
}

}  // namespace tandem::trainer
