#include "common/rpc/status_mapping.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace tandem::rpc {

// absl and gRPC number their codes alike (both follow google.rpc.Code).
grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(status.raw_code()), std::string(status.message())};
}

grpc::Status InvalidFields(const std::vector<FieldViolation>& violations) {
  google::rpc::BadRequest bad_request;
  std::vector<std::string> lines;
  for (const FieldViolation& violation : violations) {
    auto* entry = bad_request.add_field_violations();
    entry->set_field(violation.field);
    entry->set_description(violation.description);
    lines.push_back(absl::StrCat(violation.field, ": ", violation.description));
  }
  google::rpc::Status details;
  details.set_code(static_cast<int>(grpc::StatusCode::INVALID_ARGUMENT));
  details.set_message(absl::StrJoin(lines, "\n"));
  details.add_details()->PackFrom(bad_request);
  return {grpc::StatusCode::INVALID_ARGUMENT, details.message(), details.SerializeAsString()};
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return {static_cast<absl::StatusCode>(status.error_code()), status.error_message()};
}

std::vector<FieldViolation> Violations(const grpc::Status& status) {
  std::vector<FieldViolation> violations;
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return violations;
  for (const auto& detail : details.details()) {
    google::rpc::BadRequest bad_request;
    if (!detail.UnpackTo(&bad_request)) continue;
    for (const auto& entry : bad_request.field_violations()) {
      violations.push_back({entry.field(), entry.description()});
    }
  }
  return violations;
}

}  // namespace tandem::rpc
