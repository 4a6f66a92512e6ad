#include "services/tenant/session.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "common/base/status.h"
#include "services/tenant/session_core.h"

namespace tandem::tenant {

Session::Session() = default;
Session::~Session() = default;

absl::StatusOr<std::unique_ptr<Session>> Session::Connect(SessionOptions options) {
  std::unique_ptr<Session> session(new Session);
  TANDEM_ASSIGN_OR_RETURN(session->impl_, Impl::Connect(std::move(options)));
  return session;
}

absl::StatusOr<Segment> Session::CreatePrivate(const PrivateOptions& options) {
  v1::CreateSegmentRequest request;
  request.set_name(options.name);
  request.set_kind(v1::SEGMENT_KIND_PRIVATE);
  request.set_size_bytes(options.bytes);
  request.set_usually_kept(options.usually_kept);
  request.set_may_evict(options.may_evict);
  return impl_->Create(request);
}

absl::StatusOr<Segment> Session::CreateShared(const std::string& name, uint64_t bytes) {
  v1::CreateSegmentRequest request;
  request.set_name(name);
  request.set_kind(v1::SEGMENT_KIND_SHARED);
  request.set_size_bytes(bytes);
  return impl_->Create(request);
}

absl::Status Session::Release(const Segment& segment) {
  return impl_->Release(segment);
}

absl::StatusOr<SetView> Session::CreateSet(const std::string& name, const Segment& shared,
                                           const std::vector<Segment>& privates, const std::string& manifest) {
  v1::CreateSetRequest request;
  request.set_name(name);
  request.set_shared_segment_id(shared.id);
  for (const Segment& segment : privates) request.add_private_segment_ids(segment.id);
  request.set_manifest(manifest);
  return impl_->CreateSet(request);
}

absl::Status Session::RetireSet(uint64_t set_id) {
  return impl_->RetireSet(set_id);
}
absl::StatusOr<Segment> Session::MapSet(const SetView& set) {
  return impl_->MapSet(set);
}
absl::Status Session::UnmapSegment(uint64_t segment_id) {
  return impl_->UnmapSegment(segment_id);
}
std::vector<SetView> Session::Sets() const {
  return impl_->Sets();
}

absl::StatusOr<Turn> Session::RequestTurn(absl::Duration timeout) {
  TANDEM_ASSIGN_OR_RETURN(Impl::Granted granted, impl_->RequestTurn(timeout));
  Turn turn;
  turn.session_ = this;
  turn.token_ = granted.token;
  turn.sets_ = std::move(granted.sets);
  turn.lost_ = std::move(granted.lost);
  return turn;
}

bool Session::HoldsTurn() const {
  return impl_->HoldsTurn();
}
void Session::Progress() {
  impl_->Progress();
}
bool Session::arbiter_gone() const {
  return impl_->arbiter_gone();
}
uint64_t Session::arena_bytes() const {
  return impl_->arena_bytes();
}
uint64_t Session::turns() const {
  return impl_->turns();
}
double Session::waited_seconds() const {
  return impl_->waited_seconds();
}
void Session::BreakStreamForTest() {
  impl_->BreakStream();
}

Turn::Turn(Turn&& other) noexcept
    : session_(std::exchange(other.session_, nullptr)),
      token_(other.token_),
      sets_(std::move(other.sets_)),
      lost_(std::move(other.lost_)) {}

Turn& Turn::operator=(Turn&& other) noexcept {
  std::swap(session_, other.session_);
  std::swap(token_, other.token_);
  std::swap(sets_, other.sets_);
  std::swap(lost_, other.lost_);
  return *this;
}

Turn::~Turn() {
  if (session_ == nullptr || session_->arbiter_gone()) return;
  const absl::Status yielded = session_->impl_->Yield(token_, {});
  if (!yielded.ok())
    LOG_ERROR("a turn went out of scope and could not be yielded token={}: {}", token_, yielded.ToString());
}

bool Turn::Lost(const Segment& segment) const {
  return std::find(lost_.begin(), lost_.end(), segment.id) != lost_.end();
}

bool Turn::ShouldYield() const {
  return session_ == nullptr || session_->impl_->ShouldYield();
}

absl::Status Turn::BeginWrite(uint64_t set_id) {
  if (session_ == nullptr) return absl::FailedPreconditionError("the turn is over");
  return session_->impl_->BeginWrite(token_, set_id);
}

absl::StatusOr<uint64_t> Turn::Commit(uint64_t set_id, const std::string& note) {
  if (session_ == nullptr) return absl::FailedPreconditionError("the turn is over");
  return session_->impl_->Commit(token_, set_id, note);
}

absl::Status Turn::Yield(const std::vector<const Segment*>& keep) {
  if (session_ == nullptr) return absl::FailedPreconditionError("the turn is over");
  TANDEM_RETURN_IF_ERROR(session_->impl_->Yield(token_, keep));
  session_ = nullptr;
  return absl::OkStatus();
}

}  // namespace tandem::tenant
