#include "common/base/file.h"

#include "tests/testing/status_matchers.h"
#include "tests/testing/testing.h"

namespace tandem {
namespace {

using ::tandem::testing::IsOk;
using ::tandem::testing::StatusIs;
using ::testing::HasSubstr;

TEST(FileTest, AtomicWriteReplacesContentAndLeavesNoTemporary) {
  testing::TempDir dir;
  const std::string path = dir.File("a.txt");
  EXPECT_THAT(WriteFileAtomically(path, "one"), IsOk());
  EXPECT_THAT(WriteFileAtomically(path, "two"), IsOk());
  ASSERT_OK_AND_ASSIGN(const std::string content, ReadFile(path));
  EXPECT_EQ(content, "two");
  EXPECT_THAT(ReadFile(path + ".tmp"), StatusIs(absl::StatusCode::kNotFound, HasSubstr(path + ".tmp")));
}

TEST(FileTest, ReadRefusesDirectoriesAndFilesBeyondTheBound) {
  testing::TempDir dir;
  EXPECT_THAT(ReadFile(dir.path()), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is a directory")));
  ASSERT_THAT(WriteFileAtomically(dir.File("b"), "12345"), IsOk());
  EXPECT_THAT(ReadFile(dir.File("b"), 4), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("larger than 4")));
}

}  // namespace
}  // namespace tandem
