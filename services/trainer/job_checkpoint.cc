#include "services/trainer/job_checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/status.h"

namespace tandem::trainer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kPrefix[] = "checkpoint-";
constexpr char kTemporary[] = ".tmp-";
constexpr int kFormat = 1;

absl::Status FileError(const std::error_code& error, const std::string& action, const std::string& path) {
  return error ? ErrnoStatus(error.value(), action, path) : absl::OkStatus();
}

// Steps of the checkpoints, ascending.
std::vector<int64_t> Steps(const std::string& output_dir) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(output_dir, error)) {
    const std::string file = entry.path().filename();
    absl::string_view name = file;
    int64_t step = 0;
    if (absl::ConsumePrefix(&name, kPrefix) && absl::SimpleAtoi(name, &step)) steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::string ToJson(const CheckpointState& state) {
  const json j = {{"format", kFormat},          {"job", state.job_id}, {"step", state.step},
                  {"version", state.version},   {"seed", state.seed},  {"learning_rate", state.learning_rate},
                  {"adamw_updates", state.step}};
  return j.dump(1) + "\n";
}

absl::StatusOr<CheckpointState> StateFromJson(const std::string& path) {
  TANDEM_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  const json j = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto whole = [&j](const char* key) { return j.contains(key) && j[key].is_number_integer(); };
  if (!j.is_object() || !whole("format") || !whole("job") || !whole("step") || !whole("version") || !whole("seed") ||
      j["format"] != kFormat) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is damaged or of another format"));
  }
  CheckpointState state;
  state.job_id = j["job"];
  state.step = j["step"];
  state.version = j["version"];
  state.seed = j["seed"];
  if (j.contains("learning_rate") && j["learning_rate"].is_number()) state.learning_rate = j["learning_rate"];
  return state;
}

absl::Status PointFinalTo(const std::string& output_dir, int64_t step) {
  const std::string link = output_dir + "/final", temporary = output_dir + "/" + kTemporary + "final";
  std::error_code error;
  fs::remove(temporary, error);
  fs::create_directory_symlink(absl::StrCat(kPrefix, step), temporary, error);
  TANDEM_RETURN_IF_ERROR(FileError(error, "link", temporary));
  fs::rename(temporary, link, error);
  return FileError(error, "rename", link);
}

}  // namespace

std::string CheckpointPath(const std::string& output_dir, int64_t step) {
  return absl::StrCat(output_dir, "/", kPrefix, step);
}

std::optional<FoundCheckpoint> FindLastCheckpoint(const std::string& output_dir, int64_t job_id) {
  const std::vector<int64_t> steps = Steps(output_dir);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    FoundCheckpoint found{.path = CheckpointPath(output_dir, *step), .state = {}};
    const absl::StatusOr<CheckpointState> state = StateFromJson(found.tandem_dir() + "/state.json");
    if (state.ok() && state->job_id == job_id && state->step == *step) {
      found.state = *state;
      return found;
    }
    LOG_WARN("{} is passed over: {}", found.path,
             state.ok() ? "it belongs to another job" : std::string(state.status().message()));
  }
  return std::nullopt;
}

void RemoveUnfinished(const std::string& output_dir) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(output_dir, error)) {
    if (!absl::StartsWith(entry.path().filename().string(), kTemporary)) continue;
    fs::remove_all(entry.path(), error);
  }
}

CheckpointWriter::CheckpointWriter(std::string output_dir, int64_t step)
    : output_dir_(std::move(output_dir)),
      path_(CheckpointPath(output_dir_, step)),
      temporary_path_(absl::StrCat(output_dir_, "/", kTemporary, kPrefix, step)),
      temporary_tandem_(temporary_path_ + ".tandem") {}

CheckpointWriter::~CheckpointWriter() {
  std::error_code ignored;
  fs::remove_all(temporary_tandem_, ignored);
  if (!finished_) fs::remove_all(temporary_path_, ignored);
}

absl::StatusOr<std::string> CheckpointWriter::Begin() {
  std::error_code error;
  fs::remove_all(temporary_path_, error);
  fs::remove_all(temporary_tandem_, error);
  fs::create_directories(temporary_tandem_, error);
  TANDEM_RETURN_IF_ERROR(FileError(error, "make", temporary_tandem_));
  return temporary_tandem_;
}

absl::Status CheckpointWriter::Finish(const CheckpointState& state,
                                      const std::function<absl::Status(const std::string& dir)>& write_model) {
  TANDEM_RETURN_IF_ERROR(write_model(temporary_path_));
  TANDEM_RETURN_IF_ERROR(WriteFileAtomically(temporary_tandem_ + "/state.json", ToJson(state)));
  std::error_code error;
  fs::rename(temporary_tandem_, temporary_path_ + "/tandem", error);
  TANDEM_RETURN_IF_ERROR(FileError(error, "rename", temporary_tandem_));
  TANDEM_RETURN_IF_ERROR(SyncDirectory(temporary_path_));
  fs::remove_all(path_, error);  // one of another run of the same step
  fs::rename(temporary_path_, path_, error);
  TANDEM_RETURN_IF_ERROR(FileError(error, "rename", temporary_path_));
  finished_ = true;
  TANDEM_RETURN_IF_ERROR(PointFinalTo(output_dir_, state.step));
  return SyncDirectory(output_dir_);
}

std::vector<int64_t> PruneCheckpoints(const std::string& output_dir, int64_t limit) {
  std::vector<int64_t> removed;
  if (limit <= 0) return removed;
  const std::vector<int64_t> steps = Steps(output_dir);
  for (size_t i = 0; i + static_cast<size_t>(limit) < steps.size(); ++i) {
    std::error_code error;
    // Under another name first: a half-removed directory must not look like a checkpoint.
    const std::string path = CheckpointPath(output_dir, steps[i]);
    const std::string going = absl::StrCat(output_dir, "/", kTemporary, "removed-", steps[i]);
    fs::rename(path, going, error);
    if (!error) fs::remove_all(going, error);
    if (error) LOG_WARN("{} could not be removed: {}", path, error.message());
    removed.push_back(steps[i]);
  }
  return removed;
}

}  // namespace tandem::trainer
