#pragma once
// The checkpoints of a job's output_dir: checkpoint-12 is the state after optimizer step 12, complete or absent.
//
//   checkpoint-12/                      a Hugging Face directory (services/checkpoint)
//     tandem/state.json                 {"job", "step", "version", "seed", "learning_rate", ...}; written last
//     tandem/moments.safetensors        step/moments_file.h
//     tandem/generation-3.jsonl         a generation batch that step 13 still uses (grpo/generation_batch.h)
//   final -> checkpoint-12              the last one
//
// Everything is written under temporary names, synced, then renamed. Random numbers need no state: they are functions
// of the seed and the step. One thread (the job's).

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tandem::trainer {

struct CheckpointState {
  int64_t job_id = 0;
  int64_t step = 0;
  uint64_t version = 0;
  uint64_t seed = 0;
  double learning_rate = 0;  // of that step
};

struct FoundCheckpoint {
  std::string path;
  CheckpointState state;
  std::string tandem_dir() const { return path + "/tandem"; }
};

std::string CheckpointPath(const std::string& output_dir, int64_t step);

// The newest complete checkpoint of the job; nullopt if there is none. Damaged and foreign ones are passed over, with a
// warning in the log.
std::optional<FoundCheckpoint> FindLastCheckpoint(const std::string& output_dir, int64_t job_id);

// Removes what an interrupted writer left under temporary names.
void RemoveUnfinished(const std::string& output_dir);

// Writes checkpoint-STEP in two parts, so that the caller may give the turn back in between.
class CheckpointWriter {
 public:
  CheckpointWriter(std::string output_dir, int64_t step);
  // Removes what is unfinished.
  ~CheckpointWriter();

  // The folder that becomes tandem/, made empty.
  absl::StatusOr<std::string> Begin();
  // Calls `write_model`, which makes the given directory, adds the folder and the state, and publishes the checkpoint:
  // its name, and `final`.
  absl::Status Finish(const CheckpointState& state,
                      const std::function<absl::Status(const std::string& dir)>& write_model);

 private:
  const std::string output_dir_;
  const std::string path_, temporary_path_, temporary_tandem_;
  bool finished_ = false;
};

// Removes the oldest checkpoints beyond `limit` (0: none); never the newest. Returns the steps removed.
std::vector<int64_t> PruneCheckpoints(const std::string& output_dir, int64_t limit);

}  // namespace tandem::trainer
