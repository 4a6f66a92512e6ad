#include "services/client/supervisor/run_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/testing/status_matchers.h"
#include "tests/testing/testing.h"

namespace tandem::client {
namespace {

using ::tandem::testing::IsOk;
using ::tandem::testing::StatusIs;
using ::testing::HasSubstr;

TEST(RunDirTest, DefaultIsTheFirstThatIsSet) {
  EXPECT_EQ(RunDir::Default("/a", "/b", 7).path(), "/a");
  EXPECT_EQ(RunDir::Default("", "/b", 7).path(), "/b/tandem");
  EXPECT_EQ(RunDir::Default(nullptr, nullptr, 7).path(), "/tmp/tandem-7");
}

TEST(RunDirTest, MakesADirectoryThatOthersCanNotEnter) {
  const testing::TempDir temp;
  const RunDir run_dir(temp.File("deep/run"));
  ASSERT_THAT(run_dir.Make(), IsOk());
  ASSERT_THAT(run_dir.Make(), IsOk());
  struct stat info = {};
  ASSERT_EQ(stat(run_dir.path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0750U);
  ASSERT_EQ(stat((run_dir.path() + "/log").c_str(), &info), 0);
}

TEST(RunDirTest, RefusesAPathThatIsTooLongForASocket) {
  const RunDir run_dir("/tmp/" + std::string(100, 'x'));
  EXPECT_THAT(run_dir.Make(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("too long")));
}

}  // namespace
}  // namespace tandem::client
