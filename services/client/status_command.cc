// tandem status: what the supervisor and the three daemons say, as text or JSON.

#include <iostream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/file.h"
#include "services/client/commands.h"
#include "services/client/daemon_call.h"
#include "services/client/job_follower.h"
#include "services/client/output.h"

namespace tandem::client {
namespace {

constexpr absl::Duration kStatusTimeout = absl::Seconds(3);

// One answer for each daemon; OK or why there is none.
struct Answers {
  nlohmann::json supervisor;  // supervisor.json, or null
  grpc::Status arbiter_status, inference_status, trainer_status;
  v1::GetStateReply arbiter;
  v1::GetInferenceStateResponse inference;
  v1::ListJobsResponse jobs;

  bool all() const { return arbiter_status.ok() && inference_status.ok() && trainer_status.ok(); }
};

Answers Ask(const RunDir& run_dir) {
  Answers answers;
  if (const auto text = ReadFile(run_dir.SupervisorState(), 1 << 20); text.ok()) {
    answers.supervisor = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
    if (answers.supervisor.is_discarded()) answers.supervisor = nullptr;
  }
  grpc::ClientContext arbiter_call, inference_call, trainer_call;
  SetTimeout(arbiter_call, kStatusTimeout);
  answers.arbiter_status = ArbiterStub(run_dir)->GetState(&arbiter_call, {}, &answers.arbiter);
  SetTimeout(inference_call, kStatusTimeout);
  answers.inference_status = InferenceStub(run_dir)->GetInferenceState(&inference_call, {}, &answers.inference);
  SetTimeout(trainer_call, kStatusTimeout);
  v1::ListJobsRequest request;
  request.set_limit(5);
  answers.trainer_status = TrainerStub(run_dir)->ListJobs(&trainer_call, request, &answers.jobs);
  return answers;
}

nlohmann::json ToJsonValue(const grpc::Status& status, const google::protobuf::Message& message) {
  if (!status.ok()) return {{"reachable", false}, {"error", status.error_message()}};
  nlohmann::json value = nlohmann::json::parse(ToJson(message), nullptr, /*allow_exceptions=*/false);
  value["reachable"] = true;
  return value;
}

void PrintJson(const RunDir& run_dir, const Answers& answers) {
  const nlohmann::json all = {{"run_dir", run_dir.path()},
                              {"supervisor", answers.supervisor},
                              {"arbiter", ToJsonValue(answers.arbiter_status, answers.arbiter)},
                              {"inference", ToJsonValue(answers.inference_status, answers.inference)},
                              {"trainer", ToJsonValue(answers.trainer_status, answers.jobs)}};
  std::cout << all.dump(2) << "\n";
}

void PrintArbiter(const v1::GetStateReply& state) {
  const v1::PoolInfo& pool = state.pool();
  std::cout << absl::StrFormat("arbiter    serving for %.0f s, %d turns\n", state.uptime_seconds(),
                               state.turns_total());
  std::cout << "pool       " << pool.device() << " " << HumanBytes(pool.arena_bytes()) << ": shared "
            << HumanBytes(pool.shared_bytes()) << ", private " << HumanBytes(pool.private_union_bytes()) << ", free "
            << HumanBytes(pool.free_bytes()) << ", quarantined " << HumanBytes(pool.quarantined_bytes())
            << "; saved by overlay " << HumanBytes(pool.overlaid_bytes()) << "\n";
  std::cout << "host       " << HumanBytes(pool.host_reserved_bytes()) << " of " << HumanBytes(pool.host_bytes())
            << " reserved; moved at hand-overs " << HumanBytes(pool.evicted_bytes_total() + pool.restored_bytes_total())
            << "\n";
  std::cout << "turn       " << (state.holder().empty() ? "nobody" : state.holder());
  if (state.token() != 0) std::cout << " token=" << state.token();
  if (!state.waiters().empty()) std::cout << ", waiting: " << absl::StrJoin(state.waiters(), ", ");
  std::cout << "\n";
  for (const v1::TenantInfo& tenant : state.tenants()) {
    std::cout << absl::StrFormat("tenant     %-10s pid %d %s%s, private %s, shared %s, %d turns, held %.1f s\n",
                                 tenant.name(), tenant.pid(), tenant.turn_state(),
                                 tenant.attached() ? "" : " (detached)", HumanBytes(tenant.private_bytes()),
                                 HumanBytes(tenant.shared_bytes()), tenant.turns(), tenant.held_seconds());
  }
  if (!state.blocked().empty()) std::cout << "BLOCKED    " << state.blocked() << "\n";
}

void PrintInference(const v1::GetInferenceStateResponse& state) {
  if (state.model().empty()) {
    std::cout << "inference  serving nothing; load a model: tandem load DIR\n";
    return;
  }
  std::cout << "inference  serving " << state.model() << " version " << state.weights_version() << ", " << state.dtype()
            << ", " << HumanBytes(state.weights_bytes()) << "\n";
  std::cout << "requests   " << state.running() << " running, " << state.waiting() << " waiting; KV blocks "
            << state.kv_blocks_used() << " of " << state.kv_blocks() << "; tokens " << state.prompt_tokens_total()
            << " read, " << state.generated_tokens_total() << " generated\n";
}

void PrintJobs(const v1::ListJobsResponse& jobs) {
  if (jobs.jobs().empty()) std::cout << "trainer    no jobs yet\n";
  for (const v1::Job& job : jobs.jobs()) {
    std::cout << "job        " << job.id() << " " << job.name() << " (" << job.task() << ") "
              << JobStateName(job.state()) << " step " << job.step() << "/" << job.max_steps() << "\n";
  }
}

void PrintText(const RunDir& run_dir, const Answers& answers) {
  std::cout << "run_dir    " << run_dir.path() << "\n";
  if (answers.supervisor.is_object()) {
    for (const auto& daemon : answers.supervisor["daemons"]) {
      std::cout << absl::StrFormat("process    %-10s %s pid %d, %d restarts\n", daemon.value("name", ""),
                                   daemon.value("state", ""), daemon.value("pid", 0), daemon.value("restarts", 0));
    }
  }
  const auto part = [&](const grpc::Status& status, const char* daemon, const auto& print) {
    if (status.ok()) {
      print();
    } else {
      std::cout << absl::StrFormat("%-10s not reachable: %s; log: %s\n", daemon, status.error_message(),
                                   run_dir.Log(daemon));
    }
  };
  part(answers.arbiter_status, "arbiter", [&] { PrintArbiter(answers.arbiter); });
  part(answers.inference_status, "inference", [&] { PrintInference(answers.inference); });
  part(answers.trainer_status, "trainer", [&] { PrintJobs(answers.jobs); });
}

int Status(const RunDir& run_dir, const std::string& output) {
  const Answers answers = Ask(run_dir);
  if (output == "json") {
    PrintJson(run_dir, answers);
  } else {
    PrintText(run_dir, answers);
  }
  if (answers.all()) return kOk;
  std::cerr << "error: not every daemon answers. Start them with: tandem up --run_dir " << run_dir.path() << "\n";
  return kUnreachable;
}

}  // namespace

void AddStatusCommand(CLI::App& app, Cli& cli) {
  auto output = std::make_shared<std::string>("text");
  CLI::App* status = app.add_subcommand("status", "Show the pool, the turn, the served model and the jobs");
  status->add_option("--output,-o", *output, "text or json")->check(CLI::IsMember({"text", "json"}));
  status->callback([&cli, output] { cli.exit_code = Status(cli.Dir(), *output); });
}

}  // namespace tandem::client
