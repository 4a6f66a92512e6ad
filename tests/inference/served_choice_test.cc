#include "services/inference/served_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/status_matchers.h"

namespace tandem::inference {
namespace {

using ::tandem::testing::IsOk;
using ::tandem::testing::StatusIs;
using tenant::SetState;
using tenant::SetView;
using ::testing::HasSubstr;

SetView Set(uint64_t id, const std::string& name, const std::string& note = "{}",
            SetState state = SetState::kCommitted) {
  SetView set;
  set.id = id;
  set.name = name;
  set.tenant = "trainer";
  set.state = state;
  set.version = 1;
  set.note = note;
  return set;
}

constexpr const char* kEnded = R"({"job": "job-1", "ended": true})";

TEST(ServedChoiceTest, NothingIsServedWithoutSets) {
  EXPECT_FALSE(ChooseServed({}, 0).served.has_value());
  EXPECT_FALSE(ChooseServed({Set(1, "gone", "{}", SetState::kAbsent)}, 0).served.has_value());
}

TEST(ServedChoiceTest, TheNewestRunningJobGoesBeforeTheOwnModel) {
  const ServedChoice choice = ChooseServed({Set(5, "own"), Set(4, "job-1"), Set(6, "job-2")}, 5);
  EXPECT_EQ(choice.served->name, "job-2");
  EXPECT_TRUE(choice.retire_own);
}

TEST(ServedChoiceTest, AJobThatIsStillLoadingIsServedAlready) {
  const ServedChoice choice = ChooseServed({Set(5, "own"), Set(6, "job-2", "", SetState::kEmpty)}, 5);
  EXPECT_EQ(choice.served->name, "job-2");
  EXPECT_TRUE(choice.retire_own);
}

TEST(ServedChoiceTest, AnEndedJobStaysServedUntilAModelIsLoaded) {
  EXPECT_EQ(ChooseServed({Set(4, "job-1", kEnded)}, 0).served->name, "job-1");
  const ServedChoice choice = ChooseServed({Set(4, "job-1", kEnded), Set(7, "own")}, 7);
  EXPECT_EQ(choice.served->name, "own");
  EXPECT_FALSE(choice.retire_own);
}

TEST(ServedChoiceTest, LoadingIsRefusedWhileAJobRuns) {
  EXPECT_THAT(MayLoad({}, 0), IsOk());
  EXPECT_THAT(MayLoad({Set(5, "own")}, 5), IsOk());
  EXPECT_THAT(MayLoad({Set(4, "job-1", kEnded)}, 0), IsOk());
  EXPECT_THAT(MayLoad({Set(4, "job-1", "not json")}, 0),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("'job-1' is running")));
}

TEST(ServedChoiceTest, OnlyTrueEndsAJob) {
  EXPECT_TRUE(JobEnded(Set(1, "a", kEnded)));
  for (const char* note : {"", "[]", R"({"ended": false})", R"({"ended": "true"})", "{"}) {
    EXPECT_FALSE(JobEnded(Set(1, "a", note))) << note;
  }
}

TEST(ServedChoiceTest, UnreadableSetsSayWhatTheyWaitFor) {
  EXPECT_THAT(Readable(Set(1, "a")), IsOk());
  EXPECT_THAT(Readable(Set(1, "a", "{}", SetState::kWriting)), IsOk());
  SetView fresh = Set(1, "a", "{}", SetState::kWriting);
  fresh.version = 0;
  EXPECT_THAT(Readable(fresh), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("being loaded")));
  EXPECT_THAT(Readable(Set(1, "a", "{}", SetState::kTorn)),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("torn")));
  EXPECT_THAT(Readable(Set(1, "a", "{}", SetState::kAbsent)),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("gone")));
}

}  // namespace
}  // namespace tandem::inference
