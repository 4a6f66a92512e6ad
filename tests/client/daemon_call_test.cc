#include "services/client/daemon_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/rpc/status_mapping.h"

namespace tandem::client {
namespace {

TEST(DaemonCallTest, ViolationsAreShownAtTheirLinesOfTheFile) {
  const RequestFile file = {"dir/job.yaml", "task: grpo\nrewards:\n  - {name: numeric_match}\nlearning_rate: -1\n"};
  const grpc::Status status = rpc::InvalidFields(
      {{"learning_rate", "-1 is not positive"}, {"rewards[0].name", "odd"}, {"output_dir", "missing"}});
  EXPECT_EQ(DescribeViolations(status, file),
            "dir/job.yaml:4: learning_rate: -1 is not positive\n"
            "dir/job.yaml:3: rewards[0].name: odd\n"
            "dir/job.yaml: output_dir: missing\n");
}

TEST(DaemonCallTest, ATextThatIsNoYamlIsShownAtItsLine) {
  const RequestFile file = {"job.yaml", "task: sft\n  bad: [1\n"};
  EXPECT_THAT(DescribeViolations(rpc::InvalidFields({{"", "not YAML"}}), file),
              ::testing::StartsWith("job.yaml:2: not YAML"));
}

TEST(DaemonCallTest, AStatusWithoutViolationsGivesNoLines) {
  EXPECT_EQ(DescribeViolations({grpc::StatusCode::INVALID_ARGUMENT, "text"}, {"job.yaml", ""}), "");
}

}  // namespace
}  // namespace tandem::client
