#include "services/jobs/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/testing.h"

namespace tandem::jobs {
namespace {

using ::tandem::testing::IsOk;
using ::tandem::testing::StatusIs;
using ::testing::HasSubstr;

class DatasetTest : public ::testing::Test {
 protected:
  absl::StatusOr<Dataset> Load(const std::string& content, int64_t max_rows = 0) {
    std::ofstream(path_, std::ios::binary) << content;
    return LoadJsonl(path_, max_rows);
  }

  tandem::testing::TempDir dir_;
  const std::string path_ = dir_.File("d.jsonl");
};

TEST_F(DatasetTest, RowsKeepEveryColumnAndTheirLine) {
  ASSERT_OK_AND_ASSIGN(const Dataset dataset,
                       Load("\xEF\xBB\xBF{\"prompt\": \"é\", \"n\": 3}\r\n\n  {\"prompt\": \"b\", \"x\": [1]}"));
  ASSERT_EQ(dataset.rows.size(), 2);
  EXPECT_EQ(dataset.rows[0].line, 1);
  EXPECT_EQ(dataset.rows[0].json["n"], 3);
  EXPECT_EQ(dataset.rows[1].line, 3);
  EXPECT_EQ(dataset.rows[1].json["x"][0], 1);
}

TEST_F(DatasetTest, FirstRowsCanBeAskedFor) {
  ASSERT_OK_AND_ASSIGN(const Dataset dataset, Load("{\"a\":1}\n{\"a\":2}\nbroken\n", 2));
  EXPECT_EQ(dataset.rows.size(), 2);
}

TEST_F(DatasetTest, BadLinesAreNamedWithTheirNumber) {
  const std::pair<std::string, const char*> cases[] = {
      {"{\"a\":1}\n\n{\"a\":\n", ":3: not a JSON object: "},
      {"{\"a\":1}\nhello\n", ":2: not a JSON object: "},
      {"{\"a\":1}\n{\"a\":1} {\"a\":2}\n", ":2: not a JSON object: "},
      {"[1]\n", ":1: is array, must be a JSON object"},
      {"3\n", ":1: is number, must be a JSON object"},
      {"{\"a\":\"\xFF\"}\n", ":1: not a JSON object: "},
      {"{\"a\":\"\xC3\"}\n", ":1: not a JSON object: "},
      {absl::StrCat("{\"a\":", std::string(100'000, '['), std::string(100'000, ']'), "}"),
       ":1: nested more than 64 levels deep"},
      {absl::StrCat("{\"a\":1}\n{\"a\":\"", std::string((16 << 20) + 1, 'x'), "\"}\n"),
       ":2: longer than 16777216 bytes"},
      {"", "has no rows"},
      {"\n  \n", "has no rows"},
  };
  for (const auto& [content, part] : cases) {
    EXPECT_THAT(Load(content), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part))) << content.substr(0, 50);
  }
}

TEST_F(DatasetTest, BracketsInStringsAreNotNesting) {
  EXPECT_THAT(Load(absl::StrCat("{\"a\":\"\\\"", std::string(1000, '['), "\"}")), IsOk());
}

TEST_F(DatasetTest, MissingFileAndFolderAreErrors) {
  EXPECT_THAT(LoadJsonl(dir_.File("none.jsonl")), StatusIs(absl::StatusCode::kNotFound, HasSubstr("none.jsonl")));
  EXPECT_THAT(LoadJsonl(dir_.path()), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is not a file")));
}

TEST_F(DatasetTest, MissingColumnIsNamedWithThoseThere) {
  ASSERT_OK_AND_ASSIGN(const Dataset dataset, Load("{\"question\":\"q\",\"answer\":\"a\"}\n{\"question\":\"q\"}\n"));
  EXPECT_THAT(RequireColumn(dataset, "question"), IsOk());
  EXPECT_THAT(RequireColumn(dataset, "prompt"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr(":1: no column 'prompt'; the columns are: answer, question")));
  EXPECT_THAT(RequireColumn(dataset, "answer"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(":2: no column 'answer'")));
}

}  // namespace
}  // namespace tandem::jobs
