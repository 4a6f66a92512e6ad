#include "arbiter/messages_service.h"

namespace tandem::arbiter {
namespace {

v1::SetState ToProto(SetState state) {
  switch (state) {
    case SetState::kEmpty:
      return v1::SET_STATE_EMPTY;
    case SetState::kCommitted:
      return v1::SET_STATE_COMMITTED;
    case SetState::kWriting:
      return v1::SET_STATE_WRITING;
    case SetState::kTorn:
      return v1::SET_STATE_TORN;
    case SetState::kAbsent:
      return v1::SET_STATE_ABSENT;
  }
  return v1::SET_STATE_UNSPECIFIED;
}

void Fill(const StateEvent& event, v1::SessionState& state) {
  state.set_tenant(event.tenant);
  state.set_held_token(event.held_token);
  state.set_revoke_ms_left(event.revoke_ms_left);
  state.set_pending_request_id(event.pending_request_id);
  state.set_last_answered_request_id(event.last_answered_request_id);
  for (const SegmentRecord& segment : event.segments) *state.add_segments() = ToProto(segment);
  for (const SetRecord& set : event.sets) *state.add_sets() = ToProto(set);
  state.mutable_unmap_segment_ids()->Add(event.unmap_segments.begin(), event.unmap_segments.end());
  state.mutable_lost_segment_ids()->Add(event.lost_segments.begin(), event.lost_segments.end());
  state.set_heartbeat_ms(event.heartbeat_ms);
  state.set_arena_bytes(event.arena_bytes);
  state.set_block_bytes(event.block_bytes);
}

// One overload for each event.
struct EventWriter {
  v1::ArbiterMessage& message;

  void operator()(const StateEvent& event) const { Fill(event, *message.mutable_state()); }
  void operator()(const GrantEvent& event) const {
    v1::Grant& grant = *message.mutable_grant();
    grant.set_request_id(event.request_id);
    grant.set_token(event.token);
    for (const SetRecord& set : event.sets) *grant.add_sets() = ToProto(set);
    grant.mutable_lost_segment_ids()->Add(event.lost_segments.begin(), event.lost_segments.end());
  }
  void operator()(const RevokeEvent& event) const {
    message.mutable_revoke()->set_token(event.token);
    message.mutable_revoke()->set_milliseconds_left(event.ms_left);
  }
  void operator()(const UnmapEvent& event) const { message.mutable_unmap()->set_segment_id(event.segment); }
  void operator()(const SetChangedEvent& event) const { *message.mutable_set_changed() = ToProto(event.set); }
  void operator()(const RemapEvent& event) const {
    message.mutable_remap()->set_remap_id(event.remap_id);
    message.mutable_remap()->set_offset_bytes(event.range.begin);
    message.mutable_remap()->set_size_bytes(event.range.bytes());
  }
  void operator()(const YieldRefusedEvent& event) const {
    message.mutable_yield_refused()->set_token(event.token);
    message.mutable_yield_refused()->set_reason(event.reason);
  }
};

void Fill(const TenantReport& report, v1::TenantInfo& info) {
  info.set_name(report.name);
  info.set_pid(report.pid);
  info.set_attached(report.attached);
  info.set_turn_state(report.turn_state);
  info.set_private_bytes(report.private_bytes);
  info.set_shared_bytes(report.shared_bytes);
  info.set_kept_bytes(report.kept_bytes);
  info.set_turns(report.turns);
  info.set_held_seconds(report.held_seconds);
  info.set_waited_seconds(report.waited_seconds);
  info.mutable_lifeline_pids()->Add(report.lifeline_pids.begin(), report.lifeline_pids.end());
}

void FillPool(const ArbiterReport& report, v1::PoolInfo& pool) {
  pool.set_device(report.device);
  pool.set_arena_bytes(report.pool.arena_bytes);
  pool.set_block_bytes(report.block_bytes);
  pool.set_shared_bytes(report.pool.shared_bytes);
  pool.set_private_union_bytes(report.pool.private_union_bytes);
  pool.set_quarantined_bytes(report.pool.quarantined_bytes);
  pool.set_free_bytes(report.pool.free_bytes);
  pool.set_overlaid_bytes(report.pool.overlaid_bytes);
  pool.set_host_bytes(report.pool.host_bytes);
  pool.set_host_reserved_bytes(report.pool.host_reserved_bytes);
  pool.set_evicted_bytes_total(report.evicted_bytes_total);
  pool.set_restored_bytes_total(report.restored_bytes_total);
}

}  // namespace

v1::SegmentInfo ToProto(const SegmentRecord& segment) {
  v1::SegmentInfo info;
  info.set_id(segment.id);
  info.set_name(segment.spec.name);
  info.set_kind(segment.spec.kind == SegmentKind::kShared ? v1::SEGMENT_KIND_SHARED : v1::SEGMENT_KIND_PRIVATE);
  info.set_offset_bytes(segment.range.begin);
  info.set_size_bytes(segment.range.bytes());
  info.set_tenant(segment.tenant);
  info.set_kept(segment.kept);
  info.set_evicted_bytes(segment.evicted.bytes());
  return info;
}

v1::SetInfo ToProto(const SetRecord& set) {
  v1::SetInfo info;
  info.set_id(set.id);
  info.set_name(set.name);
  info.set_tenant(set.tenant);
  info.set_state(ToProto(set.state));
  info.set_version(set.version);
  info.set_shared_segment_id(set.shared_segment);
  info.set_manifest(set.manifest);
  info.set_note(set.note);
  return info;
}

v1::ArbiterMessage ToProto(const Event& event) {
  v1::ArbiterMessage message;
  std::visit(EventWriter{message}, event);
  return message;
}

v1::GetStateReply ToProto(const ArbiterReport& report) {
  v1::GetStateReply reply;
  reply.set_uptime_seconds(report.uptime_seconds);
  FillPool(report, *reply.mutable_pool());
  for (const TenantReport& tenant : report.tenants) Fill(tenant, *reply.add_tenants());
  for (const SegmentRecord& segment : report.segments) *reply.add_segments() = ToProto(segment);
  for (const SetRecord& set : report.sets) *reply.add_sets() = ToProto(set);
  reply.set_token(report.token);
  reply.set_holder(report.holder);
  for (const std::string& waiter : report.waiters) reply.add_waiters(waiter);
  reply.set_turns_total(report.turns_total);
  reply.set_blocked(report.blocked);
  return reply;
}

absl::StatusOr<SegmentSpec> SpecFrom(const v1::CreateSegmentRequest& request) {
  SegmentSpec spec;
  if (request.kind() == v1::SEGMENT_KIND_SHARED) {
    spec.kind = SegmentKind::kShared;
  } else if (request.kind() != v1::SEGMENT_KIND_PRIVATE) {
    return absl::InvalidArgumentError("kind: give SEGMENT_KIND_SHARED or SEGMENT_KIND_PRIVATE");
  }
  spec.name = request.name();
  spec.bytes = request.size_bytes();
  spec.usually_kept = request.usually_kept();
  spec.may_evict = request.may_evict();
  return spec;
}

}  // namespace tandem::arbiter
