#include "tests/tenant/cluster.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/rpc/channel.h"

namespace tandem::testing {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(5);
constexpr absl::Duration kPatience = absl::Seconds(10);

}  // namespace

TenantProcess::TenantProcess(const std::string& run_dir, const std::string& name, int longest_unit_ms)
    : process_({TANDEM_SCRIPTED_TENANT, run_dir, name, absl::StrCat(longest_unit_ms)},
               absl::StrCat(run_dir, "/", name, ".log")) {}

std::string TenantProcess::Do(const std::string& command) {
  Begin(command);
  return End();
}

std::string TenantProcess::AwaitEvent(const std::string& event) {
  const absl::Time deadline = absl::Now() + kPatience;
  while (events_.find(event) == std::string::npos && absl::Now() < deadline) {
    events_ += Do("events").substr(2);
    absl::SleepFor(kPoll);
  }
  EXPECT_NE(events_.find(event), std::string::npos) << "no event " << event << " among:" << events_;
  return events_;
}

std::vector<std::string> ArbiterCommand(const std::string& run_dir, const std::vector<std::string>& flags) {
  std::vector<std::string> command = {TANDEM_ARBITER, "--run_dir", run_dir, "--metrics_address", "off"};
  command.insert(command.end(), flags.begin(), flags.end());
  return command;
}

Cluster::Cluster(std::vector<std::string> flags) : flags_(std::move(flags)) {
  flags_.insert(flags_.begin(), {"--pool_bytes", "67108864", "--host_bytes", "134217728"});
  StartArbiter();
}

Cluster::~Cluster() {
  if (::testing::Test::HasFailure()) std::fprintf(stderr, "---- arbiter log\n%s----\n", ArbiterLog().c_str());
}

void Cluster::StartArbiter() {
  arbiter_ = std::make_unique<ChildProcess>(ArbiterCommand(run_dir(), flags_), dir_.File("arbiter.log"));
  const std::string target = rpc::DaemonTarget(run_dir(), "arbiter");
  const absl::Status serving = rpc::WaitUntilServing(target, kPatience);
  TANDEM_CHECK(serving.ok(), serving.ToString(), "\n", ArbiterLog());
  stub_ = v1::Arbiter::NewStub(rpc::MakeChannel(target));
}

void Cluster::RestartArbiter() {
  arbiter_.reset();
  StartArbiter();
}

std::unique_ptr<TenantProcess> Cluster::Unconnected(const std::string& name, int longest_unit_ms) {
  return std::make_unique<TenantProcess>(run_dir(), name, longest_unit_ms);
}

std::unique_ptr<TenantProcess> Cluster::Tenant(const std::string& name, int longest_unit_ms) {
  auto tenant = Unconnected(name, longest_unit_ms);
  EXPECT_EQ(tenant->Do("connect"), "ok") << name;
  return tenant;
}

v1::GetStateReply Cluster::State() {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
  v1::GetStateReply reply;
  const grpc::Status status = stub_->GetState(&context, {}, &reply);
  EXPECT_TRUE(status.ok()) << status.error_message();
  const v1::PoolInfo& pool = reply.pool();
  EXPECT_EQ(pool.shared_bytes() + pool.private_union_bytes() + pool.quarantined_bytes() + pool.free_bytes(),
            pool.arena_bytes());
  return reply;
}

v1::GetStateReply Cluster::AwaitState(const std::string& what,
                                      const std::function<bool(const v1::GetStateReply&)>& condition) {
  const absl::Time deadline = absl::Now() + kPatience;
  while (true) {
    v1::GetStateReply state = State();
    if (condition(state)) return state;
    if (absl::Now() > deadline) {
      ADD_FAILURE() << "not within " << kPatience << ": " << what << "\n" << state.DebugString();
      return state;
    }
    absl::SleepFor(kPoll);
  }
}

std::string Cluster::ArbiterLog() const {
  return ReadFile(dir_.path() + "/arbiter.log").value_or("no log");
}

}  // namespace tandem::testing
