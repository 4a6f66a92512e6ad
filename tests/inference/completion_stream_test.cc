#include "services/inference/completion_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/status_matchers.h"

namespace tandem::inference {
namespace {

using ::tandem::testing::IsOk;
using ::tandem::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(CompletionStreamTest, HandsOnWhatCameSinceTheLastRead) {
  CompletionStream stream;
  stream.OnPromptLogprobs({0.0F, -1.0F}, 7);
  stream.OnToken({.index = 1, .token = 5});
  stream.OnToken({.index = 0, .token = 6});
  CompletionStream::Chunk chunk = stream.Read(absl::Seconds(10));
  EXPECT_THAT(*chunk.prompt_logprobs, ElementsAre(0.0F, -1.0F));
  EXPECT_EQ(chunk.prompt_version, 7U);
  ASSERT_EQ(chunk.tokens.size(), 2U);
  EXPECT_EQ(chunk.tokens[1].token, 6);
  EXPECT_FALSE(chunk.done.has_value());
  stream.OnDone(absl::OkStatus(), absl::ZeroDuration());
  chunk = stream.Read(absl::Seconds(10));
  EXPECT_TRUE(chunk.tokens.empty());
  EXPECT_FALSE(chunk.prompt_logprobs.has_value());
  EXPECT_THAT(*chunk.done, IsOk());
}

TEST(CompletionStreamTest, AReaderThatIsTooSlowIsGivenUpAndItsBacklogIsBounded) {
  CompletionStream stream;
  for (size_t i = 0; i < CompletionStream::kMaxBacklog; ++i) stream.OnToken({.token = 1});
  EXPECT_THAT(stream.Abandoned(), IsOk());
  stream.OnToken({.token = 2});
  EXPECT_THAT(stream.Abandoned(), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("too slow")));
  stream.OnDone(absl::OkStatus(), absl::ZeroDuration());  // it had finished meanwhile, but tokens are missing
  const CompletionStream::Chunk chunk = stream.Read(absl::Seconds(10));
  EXPECT_EQ(chunk.tokens.size(), CompletionStream::kMaxBacklog);
  EXPECT_THAT(*chunk.done, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("too slow")));
}

TEST(CompletionStreamTest, ACancelledReaderAbandonsTheRequest) {
  CompletionStream stream;
  stream.Cancel();
  EXPECT_EQ(stream.Abandoned().code(), absl::StatusCode::kCancelled);
}

TEST(CompletionBatchTest, CollectsEachCompletion) {
  CompletionBatch batch(2);
  batch.OnToken({.index = 1, .token = 5, .logprob = -0.5F, .version = 3});
  batch.OnToken({.index = 0, .token = 6, .logprob = -1.5F, .version = 3, .finish = FinishReason::kStop});
  batch.OnToken({.index = 1, .token = 7, .logprob = -2.5F, .version = 3, .finish = FinishReason::kLength});
  EXPECT_FALSE(batch.Wait(absl::ZeroDuration()).has_value());
  batch.OnDone(absl::OkStatus(), absl::Seconds(2));
  EXPECT_THAT(*batch.Wait(absl::Seconds(10)), IsOk());
  EXPECT_THAT(batch.completions()[0].tokens, ElementsAre(6));
  EXPECT_THAT(batch.completions()[1].tokens, ElementsAre(5, 7));
  EXPECT_THAT(batch.completions()[1].logprobs, ElementsAre(-0.5F, -2.5F));
  EXPECT_EQ(batch.completions()[1].finish, FinishReason::kLength);
  EXPECT_EQ(batch.completions()[1].version, 3U);
  EXPECT_EQ(batch.busy(), absl::Seconds(2));
}

}  // namespace
}  // namespace tandem::inference
