// Turns of a Session: see session_core.h. The arbiter's state is the truth; after a broken stream ReconcileTurn sends
// again what the arbiter did not get.

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "common/base/status.h"
#include "services/tenant/session_core.h"

namespace tandem::tenant {
namespace {

v1::TenantMessage RequestMessage(uint64_t id) {
  v1::TenantMessage message;
  message.mutable_request_turn()->set_request_id(id);
  return message;
}

}  // namespace

absl::StatusOr<Session::Impl::Granted> Session::Impl::RequestTurn(absl::Duration timeout) {
  const absl::Time asked = absl::Now();
  const absl::Time deadline = asked + timeout;
  uint64_t id = 0;
  {
    MutexLock lock(mutex_);
    TANDEM_CHECK(held_token_ == 0, "a tenant must not wait for a turn while it holds token ", held_token_);
    TANDEM_CHECK(!request_, "one request for a turn at a time");
    id = ++last_turn_request_;
    request_ = Request{id, std::nullopt};
  }
  stream_->Send(RequestMessage(id));
  MutexLock lock(mutex_);
  while (!request_->granted && !arbiter_gone_ && absl::Now() < deadline) {
    changed_.WaitFor(mutex_, deadline - absl::Now());
  }
  const Request ended = *std::exchange(request_, std::nullopt);
  if (ended.granted) {
    ++turns_;
    waited_ns_ += absl::ToInt64Nanoseconds(absl::Now() - asked);
    return *ended.granted;
  }
  if (arbiter_gone_) return Gone();
  v1::TenantMessage withdraw;
  withdraw.mutable_withdraw_request()->set_request_id(ended.id);
  mutex_.Unlock();
  stream_->Send(withdraw);
  mutex_.Lock();
  return absl::DeadlineExceededError(absl::StrCat("no turn within ", absl::FormatDuration(timeout)));
}

void Session::Impl::Accept(uint64_t token, std::vector<SetView> sets, std::vector<uint64_t> lost) {
  held_token_ = token;
  open_window_ = 0;
  should_yield_ = false;
  request_->granted = Granted{token, std::move(sets), std::move(lost)};
  Progress();
  changed_.NotifyAll();
}

v1::TenantMessage Session::Impl::YieldUntouched(uint64_t token, const std::vector<uint64_t>& lost) {
  v1::TenantMessage message;
  message.mutable_yield()->set_token(token);
  for (const auto& [id, owned] : owned_) {
    const bool has_contents = std::find(lost.begin(), lost.end(), id) == lost.end();
    if (owned.keepable && has_contents) message.mutable_yield()->add_keep_segment_ids(id);
  }
  last_yield_ = message;
  return message;
}

void Session::Impl::OnGrant(const v1::Grant& grant) {
  v1::TenantMessage yield;
  {
    MutexLock lock(mutex_);
    std::vector<SetView> sets;
    for (const v1::SetInfo& info : grant.sets()) sets.push_back(Merge(info));
    std::vector<uint64_t> lost(grant.lost_segment_ids().begin(), grant.lost_segment_ids().end());
    if (request_ && request_->id == grant.request_id()) {
      Accept(grant.token(), std::move(sets), std::move(lost));
      return;
    }
    yield = YieldUntouched(grant.token(), lost);  // the request was withdrawn: its grant crossed
  }
  stream_->Send(yield);
}

void Session::Impl::OnRevoke(const v1::Revoke& revoke) {
  MutexLock lock(mutex_);
  if (held_token_ == revoke.token()) should_yield_ = true;
}

std::vector<v1::TenantMessage> Session::Impl::ReconcileTurn(const v1::SessionState& state) {
  std::vector<v1::TenantMessage> answers;
  const uint64_t token = state.held_token();
  const bool waits = request_ && !request_->granted;
  if (token != 0 && token == held_token_) {
    should_yield_ = should_yield_ || state.revoke_ms_left() >= 0;
  } else if (token != 0 && last_yield_.yield().token() == token) {
    answers.push_back(last_yield_);
  } else if (token != 0 && waits && request_->id == state.last_answered_request_id()) {
    std::vector<SetView> sets;
    for (const auto& [id, set] : sets_) sets.push_back(set);
    Accept(token, std::move(sets), {state.lost_segment_ids().begin(), state.lost_segment_ids().end()});
    should_yield_ = state.revoke_ms_left() >= 0;
    return answers;
  } else if (token != 0) {
    answers.push_back(YieldUntouched(token, {state.lost_segment_ids().begin(), state.lost_segment_ids().end()}));
  }
  if (state.pending_request_id() != 0 && !(waits && request_->id == state.pending_request_id())) {
    v1::TenantMessage withdraw;
    withdraw.mutable_withdraw_request()->set_request_id(state.pending_request_id());
    answers.push_back(withdraw);
  }
  if (waits && state.pending_request_id() != request_->id) answers.push_back(RequestMessage(request_->id));
  return answers;
}

absl::Status Session::Impl::Yield(uint64_t token, const std::vector<const Segment*>& keep) {
  v1::TenantMessage message;
  message.mutable_yield()->set_token(token);
  {
    MutexLock lock(mutex_);
    if (arbiter_gone_) return Gone();
    if (held_token_ != token) return absl::FailedPreconditionError(absl::StrCat("token ", token, " is not held"));
    if (open_window_ != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("the write window of set ", open_window_, " is open; commit before the yield"));
    }
    for (const Segment* segment : keep) {
      const auto owned = owned_.find(segment->id);
      if (owned == owned_.end() || !owned->second.keepable) {
        return absl::InvalidArgumentError(absl::StrCat("segment '", segment->name,
                                                       "' can not be kept: make it with "
                                                       "usually_kept or may_evict"));
      }
      message.mutable_yield()->add_keep_segment_ids(segment->id);
    }
    held_token_ = 0;
    should_yield_ = false;
    last_yield_ = message;
  }
  stream_->Send(message);
  return absl::OkStatus();
}

absl::Status Session::Impl::BeginWrite(uint64_t token, uint64_t set_id) {
  v1::BeginWriteRequest request;
  request.set_request_id(calls_->NextRequestId());
  request.set_token(token);
  request.set_set_id(set_id);
  v1::BeginWriteReply reply;
  Progress();
  TANDEM_RETURN_IF_ERROR(calls_->Call(&v1::Arbiter::Stub::BeginWrite, request, &reply));
  MutexLock lock(mutex_);
  open_window_ = set_id;
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> Session::Impl::Commit(uint64_t token, uint64_t set_id, const std::string& note) {
  v1::CommitRequest request;
  request.set_request_id(calls_->NextRequestId());
  request.set_token(token);
  request.set_set_id(set_id);
  request.set_note(note);
  v1::CommitReply reply;
  Progress();
  TANDEM_RETURN_IF_ERROR(calls_->Call(&v1::Arbiter::Stub::Commit, request, &reply));
  MutexLock lock(mutex_);
  open_window_ = 0;
  return reply.version();
}

bool Session::Impl::HoldsTurn() const {
  MutexLock lock(mutex_);
  return held_token_ != 0;
}

}  // namespace tandem::tenant
