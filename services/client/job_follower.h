#pragma once
// Follows a job on the terminal: a live line where both outputs are terminals, else one plain line per event; a summary
// at the end. Ctrl-C detaches and never cancels. One thread.

#include <string>

#include "services/client/daemon_call.h"
#include "services/client/progress_line.h"

namespace tandem::client {

class JobFollower {
 public:
  JobFollower(const RunDir& run_dir, const v1::Job& job);

  // Until the job has ended or Ctrl-C. The exit code: kOk, kFailed, kCancelled, kDetached, kUnreachable.
  int Run();

 private:
  void Show(const v1::JobEvent& event);
  void ShowState(const v1::StateChanged& state);
  void Print(const std::string& line);  // a line of output, above the live line
  void RefreshTurnHolder();
  void DrawLiveLine(bool trainer_away);
  void ClearLiveLine();
  int Finish(const grpc::Status& stream_end);

  const RunDir run_dir_;
  const int64_t job_id_;
  const bool live_;        // draw the live line: standard error is a terminal
  const bool step_lines_;  // print a line for each step: standard output is not that terminal
  ProgressView view_;
  v1::JobState state_;
  std::unique_ptr<v1::Arbiter::Stub> arbiter_;
  std::unique_ptr<v1::Trainer::Stub> trainer_;
};

// The job's end as lines for people: accuracy, turns, bytes moved, versions, times, checkpoint.
std::string JobSummaryText(const v1::Job& job);

// "queued", "running", ...
std::string JobStateName(v1::JobState state);

}  // namespace tandem::client
