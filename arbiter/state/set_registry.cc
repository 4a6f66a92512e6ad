#include "arbiter/state/set_registry.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"

namespace tandem::arbiter {

absl::StatusOr<SetId> SetRegistry::Create(SetRecord set) {
  if (set.name.empty()) return absl::InvalidArgumentError("a set needs a name");
  if (set.manifest.size() > kMaxManifestBytes) {
    return absl::InvalidArgumentError(absl::StrCat("manifest of set '", set.name, "' has ", set.manifest.size(),
                                                   " bytes, more than ", kMaxManifestBytes));
  }
  for (const auto& [id, other] : sets_) {
    if (other.owner == set.owner && other.name == set.name) {
      return absl::AlreadyExistsError(absl::StrCat("set '", set.name, "' exists; retire it first"));
    }
  }
  if (SetOfSegment(set.shared_segment)) {
    return absl::AlreadyExistsError(absl::StrCat("segment ", set.shared_segment, " is already in a set"));
  }
  set.id = ++last_id_;
  set.state = SetState::kEmpty;
  set.version = 0;
  const SetId id = set.id;
  sets_.emplace(id, std::move(set));
  return id;
}

absl::StatusOr<SetRecord*> SetRegistry::FindOwn(SessionId owner, SetId id) {
  const auto found = sets_.find(id);
  if (found == sets_.end()) return absl::NotFoundError(absl::StrCat("no set ", id));
  if (found->second.owner != owner) {
    return absl::PermissionDeniedError(absl::StrCat("set '", found->second.name, "' belongs to tenant '",
                                                    found->second.tenant, "'; only it writes and retires it"));
  }
  return &found->second;
}

absl::Status SetRegistry::BeginWrite(SessionId owner, SetId id) {
  TANDEM_ASSIGN_OR_RETURN(SetRecord * set, FindOwn(owner, id));
  if (set->state == SetState::kWriting) {
    return absl::FailedPreconditionError(absl::StrCat("the write window of set '", set->name, "' is open already"));
  }
  if (const std::optional<SetId> open = WindowOf(owner)) {
    return absl::FailedPreconditionError(absl::StrCat("the write window of set ", *open, " is open; commit it first"));
  }
  set->state = SetState::kWriting;
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> SetRegistry::Commit(SessionId owner, SetId id, const std::string& note) {
  TANDEM_ASSIGN_OR_RETURN(SetRecord * set, FindOwn(owner, id));
  if (set->state != SetState::kWriting) {
    return absl::FailedPreconditionError(absl::StrCat("set '", set->name, "' has no open write window to commit"));
  }
  if (note.size() > kMaxNoteBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the note has ", note.size(), " bytes, more than ", kMaxNoteBytes));
  }
  set->state = SetState::kCommitted;
  set->version = ++last_version_;
  set->note = note;
  return set->version;
}

absl::Status SetRegistry::CheckRetire(SessionId owner, SetId id) const {
  TANDEM_ASSIGN_OR_RETURN(const SetRecord* set, const_cast<SetRegistry*>(this)->FindOwn(owner, id));
  if (set->state == SetState::kWriting) {
    return absl::FailedPreconditionError(absl::StrCat("set '", set->name, "' is being written; commit it first"));
  }
  return absl::OkStatus();
}

SetRecord SetRegistry::Remove(SetId id) {
  auto node = sets_.extract(id);
  TANDEM_CHECK(!node.empty(), id);
  node.mapped().state = SetState::kAbsent;
  return std::move(node.mapped());
}

std::vector<SetId> SetRegistry::Tear(SessionId owner) {
  std::vector<SetId> torn;
  for (auto& [id, set] : sets_) {
    if (set.owner != owner || set.state != SetState::kWriting) continue;
    set.state = SetState::kTorn;
    torn.push_back(id);
  }
  return torn;
}

std::optional<SetId> SetRegistry::WindowOf(SessionId owner) const {
  for (const auto& [id, set] : sets_) {
    if (set.owner == owner && set.state == SetState::kWriting) return id;
  }
  return std::nullopt;
}

std::optional<SetId> SetRegistry::SetOfSegment(SegmentId segment) const {
  for (const auto& [id, set] : sets_) {
    const auto& privates = set.private_segments;
    if (set.shared_segment == segment || std::find(privates.begin(), privates.end(), segment) != privates.end()) {
      return id;
    }
  }
  return std::nullopt;
}

std::vector<SetId> SetRegistry::SetsOf(SessionId owner) const {
  std::vector<SetId> ids;
  for (const auto& [id, set] : sets_) {
    if (set.owner == owner) ids.push_back(id);
  }
  return ids;
}

const SetRecord* SetRegistry::Find(SetId id) const {
  const auto found = sets_.find(id);
  return found == sets_.end() ? nullptr : &found->second;
}

}  // namespace tandem::arbiter
