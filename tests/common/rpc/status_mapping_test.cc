#include "common/rpc/status_mapping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::rpc {
namespace {

TEST(StatusMappingTest, CodesAndTextsSurviveTheWayThereAndBack) {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), code == 0 ? "" : "why");
    EXPECT_EQ(FromGrpc(ToGrpc(status)), status);
  }
}

TEST(StatusMappingTest, FieldViolationsCanBeReadBack) {
  const grpc::Status status = InvalidFields({{"rewards[1].name", "unknown"}, {"max_steps", "is -1: use 1 or more"}});
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("max_steps: is -1"));
  const auto violations = Violations(status);
  ASSERT_EQ(violations.size(), 2U);
  EXPECT_EQ(violations[0].field, "rewards[1].name");
  EXPECT_EQ(violations[1].description, "is -1: use 1 or more");
  EXPECT_TRUE(Violations(grpc::Status(grpc::StatusCode::INTERNAL, "x", "garbage")).empty());
}

}  // namespace
}  // namespace tandem::rpc
