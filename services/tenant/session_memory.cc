// Segments, sets and maps of a Session: see session_core.h.

#include <utility>

#include "common/base/log.h"
#include "common/base/status.h"
#include "services/tenant/session_core.h"

namespace tandem::tenant {
namespace {

constexpr absl::Duration kMapRetry = absl::Milliseconds(2);

}  // namespace

// An acknowledgement on the stream (UnmapDone, RemapDone) may still be under way when blocks are asked for again: the
// arbiter then believes they are mapped. So what counts is what is mapped here.
absl::StatusOr<v1::MapSegmentReply> Session::Impl::Map(uint64_t segment_id, bool writable) {
  v1::MapSegmentRequest request;
  request.set_segment_id(segment_id);
  const absl::Time deadline = absl::Now() + options_.rpc_timeout;
  while (true) {
    v1::MapSegmentReply reply;
    TANDEM_RETURN_IF_ERROR(calls_->Call(&v1::Arbiter::Stub::MapSegment, request, &reply));
    if (lifeline_->AreMapped(reply.first_block(), reply.blocks(), writable)) return reply;
    if (absl::Now() > deadline) {
      return absl::DeadlineExceededError(absl::StrCat("the blocks of segment ", segment_id, " did not arrive"));
    }
    absl::SleepFor(kMapRetry);
  }
}

absl::StatusOr<Segment> Session::Impl::Create(const v1::CreateSegmentRequest& asked) {
  v1::CreateSegmentRequest request = asked;
  request.set_request_id(calls_->NextRequestId());
  v1::CreateSegmentReply reply;
  Progress();
  TANDEM_RETURN_IF_ERROR(calls_->Call(&v1::Arbiter::Stub::CreateSegment, request, &reply));
  const v1::SegmentInfo& info = reply.segment();
  const absl::StatusOr<v1::MapSegmentReply> mapped = Map(info.id(), /*writable=*/true);
  Segment segment{info.id(), info.name(), lifeline_->arena() + info.offset_bytes(), request.size_bytes()};
  if (!mapped.ok()) {
    Release(segment).IgnoreError();  // the reason that counts is the one above
    return mapped.status();
  }
  MutexLock lock(mutex_);
  owned_[segment.id] = {segment, request.usually_kept() || request.may_evict()};
  return segment;
}

absl::Status Session::Impl::Release(const Segment& segment) {
  v1::ReleaseSegmentRequest request;
  request.set_request_id(calls_->NextRequestId());
  request.set_segment_id(segment.id);
  v1::ReleaseSegmentReply reply;
  TANDEM_RETURN_IF_ERROR(calls_->Call(&v1::Arbiter::Stub::ReleaseSegment, request, &reply));
  MutexLock lock(mutex_);
  owned_.erase(segment.id);
  return absl::OkStatus();
}

absl::StatusOr<SetView> Session::Impl::CreateSet(const v1::CreateSetRequest& asked) {
  v1::CreateSetRequest request = asked;
  request.set_request_id(calls_->NextRequestId());
  v1::CreateSetReply reply;
  TANDEM_RETURN_IF_ERROR(calls_->Call(&v1::Arbiter::Stub::CreateSet, request, &reply));
  MutexLock lock(mutex_);
  return Merge(reply.set());
}

absl::Status Session::Impl::RetireSet(uint64_t set_id) {
  v1::RetireSetRequest request;
  request.set_request_id(calls_->NextRequestId());
  request.set_set_id(set_id);
  v1::RetireSetReply reply;
  TANDEM_RETURN_IF_ERROR(calls_->Call(&v1::Arbiter::Stub::RetireSet, request, &reply));
  MutexLock lock(mutex_);
  const auto set = sets_.find(set_id);
  if (set == sets_.end()) return absl::OkStatus();
  owned_.erase(set->second.shared_segment_id);
  sets_.erase(set);
  return absl::OkStatus();
}

absl::StatusOr<Segment> Session::Impl::MapSet(const SetView& set) {
  {
    MutexLock lock(mutex_);
    const auto own = owned_.find(set.shared_segment_id);
    if (own != owned_.end()) return own->second.segment;
    const auto foreign = foreign_.find(set.shared_segment_id);
    if (foreign != foreign_.end()) return foreign->second.segment;
  }
  TANDEM_ASSIGN_OR_RETURN(const v1::MapSegmentReply reply, Map(set.shared_segment_id, /*writable=*/false));
  const v1::SegmentInfo& info = reply.segment();
  const Segment segment{info.id(), info.name(), lifeline_->arena() + info.offset_bytes(), info.size_bytes()};
  MutexLock lock(mutex_);
  foreign_[segment.id] = {segment, reply.first_block(), reply.blocks()};
  return segment;
}

absl::Status Session::Impl::UnmapSegment(uint64_t segment_id) {
  Foreign foreign;
  {
    MutexLock lock(mutex_);
    const auto found = foreign_.find(segment_id);
    if (found == foreign_.end()) {
      return absl::NotFoundError(absl::StrCat("segment ", segment_id, " of another tenant is not mapped"));
    }
    foreign = found->second;
    foreign_.erase(found);
  }
  TANDEM_RETURN_IF_ERROR(lifeline_->Unmap(foreign.first_block, foreign.blocks));
  SendUnmapDone(segment_id);
  return absl::OkStatus();
}

void Session::Impl::SendUnmapDone(uint64_t segment_id) {
  v1::TenantMessage message;
  message.mutable_unmap_done()->set_segment_id(segment_id);
  stream_->Send(message);  // lost with a broken stream: the next state asks for it again
}

void Session::Impl::OnUnmap(uint64_t segment_id) {
  bool mapped = false;
  {
    MutexLock lock(mutex_);
    mapped = foreign_.contains(segment_id);
  }
  if (!mapped) {
    SendUnmapDone(segment_id);
  } else if (options_.on_unmap) {
    options_.on_unmap(segment_id);
  }
}

void Session::Impl::OnRemap(const v1::Remap& remap) {
  const uint64_t block_bytes = lifeline_->welcome().block_bytes;
  const absl::Status unmapped = lifeline_->Unmap(static_cast<uint32_t>(remap.offset_bytes() / block_bytes),
                                                 static_cast<uint32_t>(remap.size_bytes() / block_bytes));
  if (!unmapped.ok()) LOG_ERROR("remap {}: {}", remap.remap_id(), unmapped.ToString());
  v1::TenantMessage message;
  message.mutable_remap_done()->set_remap_id(remap.remap_id());
  stream_->Send(message);
}

std::vector<SetView> Session::Impl::Sets() const {
  MutexLock lock(mutex_);
  std::vector<SetView> sets;
  for (const auto& [id, set] : sets_) sets.push_back(set);
  return sets;
}

}  // namespace tandem::tenant
