#pragma once
// absl::Status to grpc::Status and back, once for every service. Field violations travel as google.rpc.BadRequest in
// the status details, so any gRPC client can read them.

#include <grpcpp/support/status.h>

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace tandem::rpc {

// One field of a request and what is wrong with it; `field` is a path such as "rewards[1].pattern".
struct FieldViolation {
  std::string field;
  std::string description;
};

// Codes map one to one; the text is kept.
grpc::Status ToGrpc(const absl::Status& status);

// INVALID_ARGUMENT with the violations as google.rpc.BadRequest; the text lists them too, for people.
grpc::Status InvalidFields(const std::vector<FieldViolation>& violations);

// The way back, for clients. A status that came from a lost connection is UNAVAILABLE.
absl::Status FromGrpc(const grpc::Status& status);

// The violations in a status, or none.
std::vector<FieldViolation> Violations(const grpc::Status& status);

}  // namespace tandem::rpc
