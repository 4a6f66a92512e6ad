#pragma once
// gMock matchers for absl::Status and absl::StatusOr.
//   EXPECT_THAT(F(), IsOk());  EXPECT_THAT(G(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("config.json")));
//   ASSERT_OK_AND_ASSIGN(auto x, H());

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status.h"

namespace tandem::testing {

inline const absl::Status& StatusOf(const absl::Status& status) {
  return status;
}
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& value) {
  return value.status();
}

MATCHER(IsOk, negation ? "is not OK" : "is OK") {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).ok();
}

MATCHER_P2(StatusIs, code, message, "has the status code and a message that matches") {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).code() == code &&
         ::testing::Matches(::testing::Matcher<std::string>(message))(std::string(StatusOf(arg).message()));
}

}  // namespace tandem::testing

#define ASSERT_OK_AND_ASSIGN(declaration, expression) \
  ASSERT_OK_AND_ASSIGN_IMPL(TANDEM_CONCAT(ok_or_, __LINE__), declaration, expression)
#define ASSERT_OK_AND_ASSIGN_IMPL(temporary, declaration, expression) \
  auto temporary = (expression);                                      \
  ASSERT_TRUE(temporary.ok()) << temporary.status();                  \
  declaration = *std::move(temporary)
