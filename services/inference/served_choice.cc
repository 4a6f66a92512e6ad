#include "services/inference/served_choice.h"

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace tandem::inference {
namespace {

using tenant::SetState;
using tenant::SetView;

bool Exists(const SetView& set) {
  return set.state != SetState::kAbsent;
}

// The newest set of others for which `accept` holds.
template <typename Accept>
const SetView* NewestForeign(const std::vector<SetView>& sets, uint64_t own_set_id, Accept accept) {
  const SetView* newest = nullptr;
  for (const SetView& set : sets) {
    if (set.id == own_set_id || !Exists(set) || !accept(set)) continue;
    if (newest == nullptr || set.id > newest->id) newest = &set;
  }
  return newest;
}

const SetView* RunningJob(const std::vector<SetView>& sets, uint64_t own_set_id) {
  return NewestForeign(sets, own_set_id, [](const SetView& set) { return !JobEnded(set); });
}

}  // namespace

bool JobEnded(const SetView& set) {
  const auto note = nlohmann::json::parse(set.note, nullptr, /*allow_exceptions=*/false);
  if (!note.is_object()) return false;
  const auto ended = note.find("ended");
  return ended != note.end() && ended->is_boolean() && ended->get<bool>();
}

ServedChoice ChooseServed(const std::vector<SetView>& sets, uint64_t own_set_id) {
  if (const SetView* job = RunningJob(sets, own_set_id)) return {.served = *job, .retire_own = own_set_id != 0};
  for (const SetView& set : sets) {
    if (own_set_id != 0 && set.id == own_set_id && Exists(set)) return {.served = set};
  }
  if (const SetView* last = NewestForeign(sets, own_set_id, JobEnded)) return {.served = *last};
  return {};
}

absl::Status MayLoad(const std::vector<SetView>& sets, uint64_t own_set_id) {
  const SetView* job = RunningJob(sets, own_set_id);
  if (job == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("'", job->name, "' is running on tenant '", job->tenant,
                                                    "' and its model is the one served: wait until it has ended, or "
                                                    "cancel it, then load again"));
}

absl::Status Readable(const SetView& set) {
  switch (set.state) {
    case SetState::kCommitted:
      return absl::OkStatus();
    case SetState::kWriting:
      if (set.version > 0) return absl::OkStatus();  // nobody reads without the turn, which the writer holds
      [[fallthrough]];
    case SetState::kEmpty:
      return absl::UnavailableError(absl::StrCat("'", set.name, "' is being loaded; try again later"));
    case SetState::kTorn:
      return absl::UnavailableError(absl::StrCat("the weights of '", set.name,
                                                 "' are torn: their writer died inside a write window; they come back "
                                                 "when the job resumes"));
    case SetState::kAbsent:
      break;
  }
  return absl::UnavailableError(absl::StrCat("'", set.name, "' is gone"));
}

}  // namespace tandem::inference
