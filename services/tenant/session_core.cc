#include "services/tenant/session_core.h"

#include <utility>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/rpc/channel.h"

namespace tandem::tenant {
namespace {

SetState StateFrom(v1::SetState state) {
  switch (state) {
    case v1::SET_STATE_EMPTY:
      return SetState::kEmpty;
    case v1::SET_STATE_COMMITTED:
      return SetState::kCommitted;
    case v1::SET_STATE_WRITING:
      return SetState::kWriting;
    case v1::SET_STATE_TORN:
      return SetState::kTorn;
    default:
      return SetState::kAbsent;
  }
}

bool SameSet(const SetView& a, const SetView& b) {
  return a.state == b.state && a.version == b.version && a.note == b.note;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Session::Impl>> Session::Impl::Connect(SessionOptions options) {
  std::unique_ptr<Impl> impl(new Impl(std::move(options)));
  TANDEM_RETURN_IF_ERROR(impl->Start());
  return impl;
}

absl::Status Session::Impl::Start() {
  const absl::Time deadline = absl::Now() + options_.connect_timeout;
  TANDEM_ASSIGN_OR_RETURN(
      lifeline_, LifelineClient::Connect(options_.run_dir + "/lifeline.sock", options_.tenant, options_.longest_unit,
                                         options_.connect_timeout, [this] { OnGone("its lifeline closed"); }));
  const std::string& key = lifeline_->welcome().session_key;
  calls_ = std::make_unique<ArbiterCalls>(rpc::MakeChannel(rpc::DaemonTarget(options_.run_dir, "arbiter")), key,
                                          options_.rpc_timeout, arbiter_gone_);
  {
    MutexLock lock(mutex_);  // OnGone may come at once
    stream_ = std::make_unique<AttachStream>(
        calls_->stub(), key, [this](const v1::ArbiterMessage& message) { OnMessage(message); },
        [this] { OnGone("it does not know the session"); });
    if (arbiter_gone_) stream_->Stop();
  }
  TANDEM_RETURN_IF_ERROR(AwaitState(deadline));
  beat_ = std::thread([this] { BeatLoop(); });
  return absl::OkStatus();
}

absl::Status Session::Impl::AwaitState(absl::Time deadline) {
  MutexLock lock(mutex_);
  while (!attached_) {
    if (arbiter_gone_) return Gone();
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(absl::StrCat("the arbiter in ", options_.run_dir, " did not answer in ",
                                                      absl::FormatDuration(options_.connect_timeout)));
    }
    changed_.WaitFor(mutex_, left);
  }
  return absl::OkStatus();
}

Session::Impl::~Impl() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    if (held_token_ != 0) LOG_WARN("session of tenant={} ends while it holds token={}", options_.tenant, held_token_);
    changed_.NotifyAll();
  }
  if (beat_.joinable()) beat_.join();
  stream_.reset();
  lifeline_.reset();
}

void Session::Impl::BeatLoop() {
  const absl::Duration period = absl::Milliseconds(std::max<uint32_t>(1, lifeline_->welcome().heartbeat_ms));
  v1::TenantMessage message;
  MutexLock lock(mutex_);
  while (!stopping_ && !arbiter_gone_) {
    message.mutable_heartbeat()->set_progress(progress_);
    mutex_.Unlock();
    stream_->Send(message);
    mutex_.Lock();
    const absl::Time next = absl::Now() + period;
    for (absl::Duration left = period; left > absl::ZeroDuration() && !stopping_; left = next - absl::Now()) {
      changed_.WaitFor(mutex_, left);
    }
  }
}

void Session::Impl::OnGone(const char* sign) {
  if (arbiter_gone_.exchange(true)) return;
  LOG_WARN("the arbiter is gone: {}", sign);
  should_yield_ = true;
  MutexLock lock(mutex_);
  if (stream_ != nullptr) stream_->Stop();
  changed_.NotifyAll();
}

absl::Status Session::Impl::Gone() const {
  return absl::UnavailableError("the arbiter is gone, and with it the pool; connect again");
}

void Session::Impl::OnMessage(const v1::ArbiterMessage& message) {
  switch (message.message_case()) {
    case v1::ArbiterMessage::kState:
      return OnState(message.state());
    case v1::ArbiterMessage::kGrant:
      return OnGrant(message.grant());
    case v1::ArbiterMessage::kRevoke:
      return OnRevoke(message.revoke());
    case v1::ArbiterMessage::kUnmap:
      return OnUnmap(message.unmap().segment_id());
    case v1::ArbiterMessage::kSetChanged:
      return OnSetChanged(message.set_changed());
    case v1::ArbiterMessage::kRemap:
      return OnRemap(message.remap());
    case v1::ArbiterMessage::kYieldRefused:
      LOG_ERROR("the arbiter refused the yield of token={}: {}", message.yield_refused().token(),
                message.yield_refused().reason());
      return;
    case v1::ArbiterMessage::MESSAGE_NOT_SET:
      return;
  }
}

void Session::Impl::OnState(const v1::SessionState& state) {
  std::vector<SetView> changed;
  std::vector<v1::TenantMessage> answers;
  {
    MutexLock lock(mutex_);
    changed = ReplaceSets(state);
    answers = ReconcileTurn(state);
    attached_ = true;
    changed_.NotifyAll();
  }
  for (const v1::TenantMessage& answer : answers) stream_->Send(answer);
  if (options_.on_set_changed) {
    for (const SetView& set : changed) options_.on_set_changed(set);
  }
  for (const uint64_t segment_id : state.unmap_segment_ids()) OnUnmap(segment_id);
}

std::vector<SetView> Session::Impl::ReplaceSets(const v1::SessionState& state) {
  std::map<uint64_t, SetView> before;
  before.swap(sets_);
  std::vector<SetView> changed;
  for (const v1::SetInfo& info : state.sets()) {
    const SetView set = Merge(info);
    const auto old = before.find(set.id);
    if (old == before.end() || !SameSet(old->second, set)) changed.push_back(set);
    before.erase(set.id);
  }
  for (auto& [id, set] : before) {
    set.state = SetState::kAbsent;
    changed.push_back(set);
  }
  return changed;
}

SetView Session::Impl::Merge(const v1::SetInfo& info) {
  SetView view;
  view.id = info.id();
  view.name = info.name();
  view.tenant = info.tenant();
  view.state = StateFrom(info.state());
  view.version = info.version();
  view.shared_segment_id = info.shared_segment_id();
  view.manifest = info.manifest();
  view.note = info.note();
  if (view.manifest.empty()) view.manifest = sets_[view.id].manifest;  // sent once
  if (view.state == SetState::kAbsent) {
    sets_.erase(view.id);
  } else {
    sets_[view.id] = view;
  }
  return view;
}

void Session::Impl::OnSetChanged(const v1::SetInfo& info) {
  SetView set;
  {
    MutexLock lock(mutex_);
    set = Merge(info);
  }
  if (options_.on_set_changed) options_.on_set_changed(set);
}

}  // namespace tandem::tenant
