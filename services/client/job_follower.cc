#include "services/client/job_follower.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <iostream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "services/client/exit_code.h"
#include "services/client/interrupt.h"
#include "services/client/job_events.h"

namespace tandem::client {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(200);

int TerminalWidth() {
  winsize size = {};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col - 1 : 100;
}

std::map<std::string, double> ToMap(const google::protobuf::Map<std::string, double>& metrics) {
  return {metrics.begin(), metrics.end()};
}

}  // namespace

std::string JobStateName(v1::JobState state) {
  const std::string name = v1::JobState_Name(state);
  constexpr absl::string_view kPrefix = "JOB_STATE_";
  return absl::AsciiStrToLower(name.substr(std::min(name.size(), kPrefix.size())));
}

JobFollower::JobFollower(const RunDir& run_dir, const v1::Job& job)
    : run_dir_(run_dir),
      job_id_(job.id()),
      live_(isatty(STDERR_FILENO) == 1),
      step_lines_(!live_ || isatty(STDOUT_FILENO) != 1),
      state_(job.state()),
      arbiter_(ArbiterStub(run_dir)),
      trainer_(TrainerStub(run_dir)) {
  view_.name = absl::StrCat(job.name(), " (job ", job.id(), ")");
  view_.stage = JobStateName(job.state());
  view_.step = job.step();
  view_.max_steps = job.max_steps();
}

int JobFollower::Run() {
  const Interrupt interrupt;
  JobEvents events(run_dir_, job_id_, 0);
  absl::Time drawn = absl::InfinitePast();
  while (!events.Ended().has_value()) {
    if (const auto event = events.Next(kTick)) Show(*event);
    if (interrupt.Requested()) {
      ClearLiveLine();
      std::cerr << "detached; job " << job_id_ << " goes on. Follow it again: tandem job follow " << job_id_
                << "   Cancel it: tandem job cancel " << job_id_ << "\n";
      std::cout << job_id_ << std::endl;
      return kDetached;
    }
    if (live_ && absl::Now() - drawn >= kTick) {
      RefreshTurnHolder();
      DrawLiveLine(events.Away());
      drawn = absl::Now();
    }
  }
  ClearLiveLine();
  return Finish(*events.Ended());
}

void JobFollower::Show(const v1::JobEvent& event) {
  switch (event.event_case()) {
    case v1::JobEvent::kState:
      ShowState(event.state());
      break;
    case v1::JobEvent::kStep:
      view_.step = event.step().step();
      view_.max_steps = event.step().max_steps();
      view_.metrics = ToMap(event.step().metrics());
      if (step_lines_) Print(StepLine(view_.step, view_.max_steps, view_.metrics));
      break;
    case v1::JobEvent::kEval:
      Print(absl::StrFormat("eval at step %d: mean reward %.4f over %d rows in %.1f s", event.eval().step(),
                            event.eval().mean_reward(), event.eval().rows(), event.eval().seconds()));
      break;
    case v1::JobEvent::kCheckpoint:
      Print(absl::StrCat("checkpoint at step ", event.checkpoint().step(), ": ", event.checkpoint().path()));
      break;
    case v1::JobEvent::kLog:
      Print(absl::StrCat(event.log().level(), ": ", event.log().text()));
      break;
    case v1::JobEvent::kProgress:
      view_.stage = event.progress().phase();
      view_.fraction = event.progress().fraction();
      view_.tokens_per_second = event.progress().tokens_per_second();
      break;
    case v1::JobEvent::EVENT_NOT_SET:
      break;
  }
}

void JobFollower::ShowState(const v1::StateChanged& state) {
  state_ = state.state();
  view_.stage = JobStateName(state.state());
  view_.fraction = 0;
  Print(absl::StrCat("job ", job_id_, " ", view_.stage, state.error().empty() ? "" : ": ", state.error()));
}

void JobFollower::Print(const std::string& line) {
  ClearLiveLine();
  std::cout << line << std::endl;
}

void JobFollower::RefreshTurnHolder() {
  grpc::ClientContext context;
  SetTimeout(context, kTick);
  v1::GetStateReply state;
  view_.turn_holder = arbiter_->GetState(&context, {}, &state).ok() ? state.holder() : "arbiter away";
}

void JobFollower::DrawLiveLine(bool trainer_away) {
  const std::string line = trainer_away ? absl::StrCat(view_.name, ": the trainer is away, waiting for it")
                                        : LiveLine(view_, TerminalWidth());
  std::cerr << "\r\033[K" << line << std::flush;
}

void JobFollower::ClearLiveLine() {
  if (live_) std::cerr << "\r\033[K" << std::flush;
}

int JobFollower::Finish(const grpc::Status& stream_end) {
  if (!stream_end.ok()) return ReportError(stream_end, "trainer", run_dir_);
  grpc::ClientContext context;
  SetTimeout(context);
  v1::GetJobRequest request;
  request.set_job_id(job_id_);
  v1::Job job;
  if (const grpc::Status status = trainer_->GetJob(&context, request, &job); !status.ok()) {
    return ReportError(status, "trainer", run_dir_);
  }
  std::cout << JobSummaryText(job) << std::flush;
  switch (job.state()) {
    case v1::JOB_STATE_SUCCEEDED:
      return kOk;
    case v1::JOB_STATE_CANCELLED:
      return kCancelled;
    default:
      std::cerr << "error: job " << job_id_ << " " << JobStateName(job.state()) << ": " << job.error() << "\n"
                << "The trainer's log: " << run_dir_.Log("trainer") << "\n";
      return kFailed;
  }
}

std::string JobSummaryText(const v1::Job& job) {
  const v1::JobSummary& sum = job.summary();
  std::string text = absl::StrCat("job ", job.id(), " ", job.name(), ": ", JobStateName(job.state()), " at step ",
                                  job.step(), " of ", job.max_steps(), "\n");
  absl::StrAppendFormat(&text, "  time        generation %.1f s, reward %.1f s, training %.1f s, switching %.1f s\n",
                        sum.generation_seconds(), sum.reward_seconds(), sum.train_seconds(), sum.switch_seconds());
  absl::StrAppendFormat(&text, "  turns       %d, %s moved at hand-overs\n", sum.turns(),
                        HumanBytes(sum.bytes_moved()));
  absl::StrAppendFormat(&text, "  weights     %d versions, %d optimizer steps\n", sum.versions(),
                        sum.optimizer_steps());
  absl::StrAppendFormat(&text, "  tokens      %d generated, %d trained\n", sum.tokens_generated(),
                        sum.tokens_trained());
  if (job.resumed_from_step() > 0) absl::StrAppend(&text, "  resumed     from step ", job.resumed_from_step(), "\n");
  absl::StrAppend(&text, "  output      ", job.output_dir(), "\n");
  absl::StrAppend(&text, "  checkpoint  ", sum.checkpoint().empty() ? "none" : sum.checkpoint(), "\n");
  return text;
}

}  // namespace tandem::client
