// The service against a real arbiter: turns, versions, the served model, queues and failures.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <future>

#include "common/rpc/status_mapping.h"
#include "tests/inference/engine_run.h"

namespace tandem::inference {
namespace {

using ::tandem::testing::EngineRun;
using ::tandem::testing::Generated;
using ::tandem::testing::JobSet;
using ::testing::HasSubstr;

using State = v1::GetInferenceStateResponse;

v1::GenerateRequest Prompt(const std::string& text, int max_tokens, int n = 1) {
  v1::GenerateRequest request;
  request.set_text(text);
  request.mutable_sampling()->set_max_tokens(max_tokens);
  request.mutable_sampling()->set_n(n);
  request.mutable_sampling()->set_seed(5);
  request.mutable_sampling()->set_ignore_eos(true);
  request.set_logprobs(true);
  return request;
}

v1::RolloutRequest RolloutOf(const JobSet& job, uint64_t version, int max_tokens) {
  v1::RolloutRequest request;
  request.set_set_id(job.set.id);
  request.set_version(version);
  for (const int first : {7, 40, 90}) {
    auto* prompt = request.add_prompts();
    for (int i = 0; i < 20; ++i) prompt->add_ids(first + i);
  }
  request.mutable_sampling()->set_n(4);
  request.mutable_sampling()->set_seed(3);
  request.mutable_sampling()->set_max_tokens(max_tokens);
  return request;
}

// Slow enough that turns change while it generates.
constexpr ::tandem::testing::TinyModel kSlow = {.hidden_size = 256, .intermediate_size = 512, .layers = 4};

class EngineTest : public ::testing::Test {
 protected:
  // With this model loaded at the start.
  void StartWith(const std::string& dir) {
    EngineOptions options;
    options.model = dir;
    run_.StartEngine(options);
  }
  grpc::Status Rollout(const v1::RolloutRequest& request, v1::RolloutResponse& response) {
    grpc::ClientContext context;
    return run_.stub().Rollout(&context, request, &response);
  }
  void Release() {
    grpc::ClientContext context;
    v1::ReleaseModelResponse response;
    EXPECT_TRUE(run_.stub().ReleaseModel(&context, v1::ReleaseModelRequest(), &response).ok());
  }
  // The job's set with its first version committed.
  JobSet StartJob(const std::string& dir) {
    JobSet job = run_.MakeJob("job-1", dir);
    tenant::Turn turn = run_.TakeTurn();
    run_.Commit(turn, job, dir, 1.0F);
    EXPECT_TRUE(turn.Yield({}).ok());
    run_.AwaitState("the job's model", [](const State& state) { return state.model() == "job-1"; });
    return job;
  }

  EngineRun run_;
};

TEST_F(EngineTest, NothingIsServedUntilAModelIsLoaded) {
  run_.StartEngine();
  EXPECT_EQ(run_.Generate(Prompt("a", 3)).status.error_code(), grpc::StatusCode::UNAVAILABLE);
  const std::string dir = run_.Model("one");
  ASSERT_TRUE(run_.Load(dir).ok());
  const Generated generated = run_.Generate(Prompt("hello", 12, 2));
  EXPECT_TRUE(generated.status.ok()) << generated.status.error_message();
  ASSERT_EQ(generated.tokens.size(), 2U);
  EXPECT_EQ(generated.tokens[1].size(), 12U);
  EXPECT_EQ(generated.logprobs[1].size(), 12U);
  const State state = run_.State();
  EXPECT_EQ(state.model(), dir);
  EXPECT_EQ(state.kv_blocks_used(), 0U);
  EXPECT_EQ(state.generated_tokens_total(), 24U);
}

TEST_F(EngineTest, ASecondLoadReplacesTheFirstAndReleaseServesNothing) {
  StartWith(run_.Model("one"));
  run_.AwaitState("the first model", [](const State& state) { return !state.model().empty(); });
  const std::string second = run_.Model("two", {.seed = 2});
  ASSERT_TRUE(run_.Load(second).ok());
  EXPECT_EQ(run_.State().model(), second);
  EXPECT_TRUE(run_.Generate(Prompt("hello", 5)).status.ok());
  Release();
  EXPECT_EQ(run_.State().model(), "");
  EXPECT_EQ(run_.Generate(Prompt("hello", 5)).status.error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(EngineTest, AnInterruptionByATurnChangeChangesNoBit) {
  run_.StartEngine();
  ASSERT_TRUE(run_.Load(run_.Model("slow", kSlow)).ok());
  const v1::GenerateRequest request = Prompt("the quick brown fox jumps over the lazy dog", 400, 24);
  const Generated alone = run_.Generate(request);
  ASSERT_TRUE(alone.status.ok());
  // A trainer whose own memory overlaps the cache: what is kept must come back.
  const auto scratch = run_.trainer().CreatePrivate({.name = "scratch", .bytes = 52 << 20});
  ASSERT_TRUE(scratch.ok()) << scratch.status();
  auto interrupted = std::async(std::launch::async, [&] { return run_.Generate(request); });
  run_.AwaitState("a running completion", [](const State& state) { return state.running() > 0; });
  int turns = 0;
  while (interrupted.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    tenant::Turn turn = run_.TakeTurn();
    std::memset(scratch->data, 0xff, scratch->bytes);
    ASSERT_TRUE(turn.Yield({}).ok());
    ++turns;
  }
  EXPECT_GT(turns, 1);
  EXPECT_EQ(interrupted.get(), alone);
  EXPECT_THAT(run_.ArbiterLog(), HasSubstr("of segment 'kv_cache'"));  // evicted and restored
}

TEST_F(EngineTest, AJobsSetTakesThePlaceOfTheOwnModel) {
  const std::string dir = run_.Model("one");
  StartWith(dir);
  run_.AwaitState("the own model", [&](const State& state) { return state.model() == dir; });
  JobSet job = run_.MakeJob("job-1", run_.Model("two", {.seed = 9}));
  run_.AwaitState("nothing while the job loads", [](const State& state) { return state.model().empty(); });
  EXPECT_THAT(run_.Generate(Prompt("a", 2)).status.error_message(), HasSubstr("'job-1' is being loaded"));
  {
    tenant::Turn turn = run_.TakeTurn();
    run_.Commit(turn, job, run_.run_dir() + "/two", 1.0F);
  }
  run_.AwaitState("the job's model", [](const State& state) { return state.model() == "job-1"; });
  const grpc::Status refused = run_.Load(dir);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(refused.error_message(), HasSubstr("'job-1' is running"));
  v1::GenerateRequest named = Prompt("a", 2);
  named.set_model(dir);
  EXPECT_EQ(run_.Generate(named).status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(run_.trainer().Sets(), ::testing::SizeIs(1));
  // After its end it stays served, until a model is loaded.
  {
    tenant::Turn turn = run_.TakeTurn();
    run_.Commit(turn, job, run_.run_dir() + "/two", 1.0F, R"({"ended": true})");
  }
  EXPECT_TRUE(run_.Generate(Prompt("a", 2)).status.ok());
  ASSERT_TRUE(run_.Load(dir).ok());
  EXPECT_EQ(run_.State().model(), dir);
}

TEST_F(EngineTest, RolloutsComeFromTheVersionAskedForOrNotAtAll) {
  run_.StartEngine();
  const std::string dir = run_.Model("one");
  const JobSet job = StartJob(dir);
  const uint64_t first = run_.State().weights_version();
  v1::RolloutResponse response;
  const grpc::Status status = Rollout(RolloutOf(job, first, 30), response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(response.completions_size(), 12);
  for (const auto& completion : response.completions()) EXPECT_EQ(completion.version(), first);
  EXPECT_GT(response.busy_seconds(), 0);
  {
    tenant::Turn turn = run_.TakeTurn();
    run_.Commit(turn, job, dir, 1.05F);
  }
  v1::RolloutResponse ignored;
  const grpc::Status stale = Rollout(RolloutOf(job, first, 30), ignored);
  EXPECT_EQ(stale.error_code(), grpc::StatusCode::FAILED_PRECONDITION) << stale.error_message();
  v1::RolloutResponse next;
  ASSERT_TRUE(Rollout(RolloutOf(job, first + 1, 30), next).ok());
  EXPECT_NE(next.completions(0).logprobs(0), response.completions(0).logprobs(0));
}

TEST_F(EngineTest, ARolloutWaitsForACommitThatIsOnItsWay) {
  run_.StartEngine();
  const std::string dir = run_.Model("one");
  const JobSet job = StartJob(dir);
  const uint64_t next = run_.State().weights_version() + 1;
  auto rollout = std::async(std::launch::async, [&] {
    v1::RolloutResponse response;
    return Rollout(RolloutOf(job, next, 5), response);
  });
  {
    tenant::Turn turn = run_.TakeTurn();
    EXPECT_EQ(run_.Commit(turn, job, dir, 1.0F), next);
  }
  const grpc::Status status = rollout.get();
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(EngineTest, ARolloutWhoseCallerIsGoneIsForgotten) {
  run_.StartEngine();
  const JobSet job = StartJob(run_.Model("slow", kSlow));
  v1::RolloutRequest request = RolloutOf(job, run_.State().weights_version(), 450);
  request.mutable_sampling()->set_n(64);
  request.mutable_sampling()->set_ignore_eos(true);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto call = run_.stub().AsyncRollout(&context, request, &queue);
  v1::RolloutResponse response;
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  run_.AwaitState("running completions", [](const State& state) { return state.running() > 0; });
  context.TryCancel();
  void* tag = nullptr;
  bool ok = false;
  ASSERT_TRUE(queue.Next(&tag, &ok));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  run_.AwaitState("free blocks",
                  [](const State& state) { return state.running() == 0 && state.kv_blocks_used() == 0; });
}

TEST_F(EngineTest, BadRolloutsNameTheirFields) {
  run_.StartEngine();
  const JobSet job = StartJob(run_.Model("one"));
  v1::RolloutRequest request = RolloutOf(job, run_.State().weights_version(), 600);
  request.mutable_prompts(1)->set_ids(3, 260);
  request.mutable_sampling()->set_n(0);
  grpc::ClientContext context;
  v1::RolloutResponse response;
  std::vector<std::string> fields;
  for (const auto& violation : rpc::Violations(run_.stub().Rollout(&context, request, &response))) {
    fields.push_back(violation.field);
  }
  EXPECT_THAT(fields,
              ::testing::ElementsAre("sampling.n", "sampling.max_tokens", "prompts[1].ids", "sampling.max_tokens"));
}

TEST_F(EngineTest, AServedRequestSpansVersionsAndSaysSo) {
  run_.StartEngine();
  const std::string dir = run_.Model("slow", kSlow);
  const JobSet job = StartJob(dir);
  auto generated = std::async(std::launch::async, [&] { return run_.Generate(Prompt("hello there", 450, 24)); });
  run_.AwaitState("a running completion", [](const State& state) { return state.running() > 0; });
  uint64_t last = 0;
  {
    tenant::Turn turn = run_.TakeTurn();
    last = run_.Commit(turn, job, dir, 1.01F);
  }
  const Generated result = generated.get();
  ASSERT_TRUE(result.status.ok()) << result.status.error_message();
  EXPECT_TRUE(std::is_sorted(result.versions[0].begin(), result.versions[0].end()));
  EXPECT_EQ(result.versions[0].front(), last - 1);
  EXPECT_EQ(result.versions[0].back(), last);
}

TEST_F(EngineTest, ARetiredSetIsUnmappedAndRequestsForItEnd) {
  run_.StartEngine();
  const JobSet job = StartJob(run_.Model("one"));
  tenant::Turn turn = run_.TakeTurn();  // so that the request waits
  auto generated = std::async(std::launch::async, [&] { return run_.Generate(Prompt("hello", 5)); });
  run_.AwaitState("a waiting request", [](const State& state) { return state.waiting() > 0; });
  ASSERT_TRUE(run_.trainer().RetireSet(job.set.id).ok());
  const Generated result = generated.get();
  EXPECT_EQ(result.status.error_code(), grpc::StatusCode::UNAVAILABLE) << result.status.error_message();
  run_.AwaitState("nothing served", [](const State& state) { return state.model().empty(); });
}

TEST_F(EngineTest, AFullQueueAndADeadlineAreRefusedClearly) {
  EngineOptions options;
  options.max_queue = 2;
  run_.StartEngine(options, /*request_timeout=*/absl::Milliseconds(300));
  ASSERT_TRUE(run_.Load(run_.Model("one")).ok());
  tenant::Turn turn = run_.TakeTurn();
  std::vector<std::future<Generated>> waiting;
  waiting.reserve(2);
  for (int i = 0; i < 2; ++i) {
    waiting.push_back(std::async(std::launch::async, [&] { return run_.Generate(Prompt("hello", 5)); }));
  }
  run_.AwaitState("two waiting requests", [](const State& state) { return state.waiting() == 2; });
  const Generated refused = run_.Generate(Prompt("hello", 5));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.status.error_message(), HasSubstr("2 requests wait already"));
  for (auto& future : waiting) {
    const Generated late = future.get();
    EXPECT_EQ(late.status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
    EXPECT_THAT(late.status.error_message(), HasSubstr("no token within 300ms"));
  }
  ASSERT_TRUE(turn.Yield({}).ok());
  EXPECT_TRUE(run_.Generate(Prompt("hello", 5)).status.ok());
}

TEST_F(EngineTest, CancellingFreesTheBlocks) {
  run_.StartEngine();
  ASSERT_TRUE(run_.Load(run_.Model("one")).ok());
  grpc::ClientContext context;
  const auto reader = run_.stub().Generate(&context, Prompt("hello", 500, 8));
  v1::GenerateResponse message;
  ASSERT_TRUE(reader->Read(&message));
  context.TryCancel();
  while (reader->Read(&message)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  run_.AwaitState("free blocks",
                  [](const State& state) { return state.running() == 0 && state.kv_blocks_used() == 0; });
}

TEST_F(EngineTest, TheArbitersDeathEndsRequestsAndTheModelComesBack) {
  run_.StartEngine();
  const std::string dir = run_.Model("one");
  ASSERT_TRUE(run_.Load(dir).ok());
  const Generated before = run_.Generate(Prompt("hello", 40));
  auto running = std::async(std::launch::async, [&] { return run_.Generate(Prompt("hello", 400, 100)); });
  run_.AwaitState("running completions", [](const State& state) { return state.running() > 0; });
  run_.RestartArbiter();
  EXPECT_EQ(running.get().status.error_code(), grpc::StatusCode::UNAVAILABLE);
  run_.AwaitState("the model again", [&](const State& state) { return state.model() == dir; });
  EXPECT_EQ(run_.Generate(Prompt("hello", 40)), before);
}

TEST_F(EngineTest, BadLoadsLeaveTheServedModelAndSayWhatIsWrong) {
  run_.StartEngine();
  const std::string dir = run_.Model("one");
  ASSERT_TRUE(run_.Load(dir).ok());
  EXPECT_THAT(run_.Load(run_.run_dir() + "/nowhere").error_message(), HasSubstr("nowhere/config.json"));
  EXPECT_EQ(run_.Load("").error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const std::string broken = run_.Model("broken", {.seed = 3});
  ASSERT_EQ(unlink((broken + "/model.safetensors").c_str()), 0);
  EXPECT_THAT(run_.Load(broken).error_message(), HasSubstr("model.safetensors"));
  EXPECT_EQ(run_.State().model(), dir);
  // 64 MiB of pool: a head of 512 x 60000 needs 117 MiB.
  const std::string large = run_.Model("large", {.hidden_size = 512, .vocab_size = 60000});
  const grpc::Status full = run_.Load(large);
  EXPECT_EQ(full.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(full.error_message(), HasSubstr("no room for the"));
}

TEST_F(EngineTest, BadRequestsNameTheirFields) {
  run_.StartEngine();
  ASSERT_TRUE(run_.Load(run_.Model("one")).ok());
  v1::GenerateRequest request = Prompt("a", 2);
  request.mutable_sampling()->set_temperature(-1);
  request.mutable_sampling()->set_top_p(0);
  std::vector<std::string> fields;
  for (const auto& violation : rpc::Violations(run_.Generate(request).status)) fields.push_back(violation.field);
  EXPECT_THAT(fields, ::testing::ElementsAre("sampling.temperature", "sampling.top_p"));
  EXPECT_EQ(run_.Generate(v1::GenerateRequest()).status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const Generated long_prompt = run_.Generate(Prompt(std::string(600, 'a'), 2));
  EXPECT_THAT(long_prompt.status.error_message(), HasSubstr("the prompt has 600 tokens; the model's context of 512"));
  v1::GenerateRequest chat;
  chat.mutable_messages()->add_messages()->set_role("user");
  EXPECT_FALSE(run_.Generate(chat).status.ok());  // this model has no chat template
  EXPECT_TRUE(run_.Generate(Prompt("a", 2)).status.ok());
}

TEST_F(EngineTest, PromptLogprobsComeWithTheVersionTheyBelongTo) {
  run_.StartEngine();
  const std::string dir = run_.Model("one");
  const JobSet job = StartJob(dir);
  v1::GenerateRequest request = Prompt("the quick brown fox", 1);
  request.set_prompt_logprobs(true);
  const Generated first = run_.Generate(request);
  ASSERT_EQ(first.prompt_logprobs.size(), 19U);
  EXPECT_EQ(first.prompt_version, run_.State().weights_version());
  {
    tenant::Turn turn = run_.TakeTurn();
    run_.Commit(turn, job, dir, 1.1F);
  }
  const Generated second = run_.Generate(request);
  EXPECT_EQ(second.prompt_version, first.prompt_version + 1);
  EXPECT_NE(second.prompt_logprobs, first.prompt_logprobs);
}

}  // namespace
}  // namespace tandem::inference
