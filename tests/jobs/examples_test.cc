// The job files that users start from.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/file.h"
#include "services/jobs/batch_plan.h"
#include "services/jobs/job_spec_parser.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/testing.h"

namespace tandem::jobs {
namespace {

ParsedJob Example(const std::string& name) {
  const std::string folder = tandem::testing::TestData("../../deploy/examples");
  const absl::StatusOr<std::string> text = ReadFile(folder + "/" + name);
  EXPECT_TRUE(text.ok()) << text.status();
  ParsedJob job = ParseJobSpec(text.value_or(""), "/base");
  EXPECT_TRUE(job.ok()) << name << ": " << ToStatus(job.errors);
  return job;
}

TEST(Examples, ParseWithNothingToWarnOfButTheDefaults) {
  for (const char* name : {"gsm8k.yaml", "sums_sft.yaml", "sums_grpo.yaml"}) {
    EXPECT_THAT(Example(name).warnings, ::testing::Each(::testing::HasSubstr("; TRL: "))) << name;
  }
}

TEST(Examples, EachStepSeesItsGenerationBatchWhole) {
  for (const char* name : {"gsm8k.yaml", "sums_grpo.yaml"}) EXPECT_FALSE(NeedsOldLogprobs(Example(name).spec)) << name;
  EXPECT_EQ(PromptsPerGeneration(Example("sums_grpo.yaml").spec), 64);
  EXPECT_EQ(PromptsPerGeneration(Example("gsm8k.yaml").spec), 4);
}

}  // namespace
}  // namespace tandem::jobs
