#pragma once
// The arbiter's plain values as protobuf messages and back. Pure.

#include "absl/status/statusor.h"
#include "arbiter/arbiter_report.h"
#include "arbiter/events.h"
#include "tandem/v1/arbiter.pb.h"

namespace tandem::arbiter {

v1::SegmentInfo ToProto(const SegmentRecord& segment);
v1::SetInfo ToProto(const SetRecord& set);
v1::ArbiterMessage ToProto(const Event& event);
v1::GetStateReply ToProto(const ArbiterReport& report);

// INVALID_ARGUMENT for an unknown kind.
absl::StatusOr<SegmentSpec> SpecFrom(const v1::CreateSegmentRequest& request);

}  // namespace tandem::arbiter
