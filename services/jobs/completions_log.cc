#include "services/jobs/completions_log.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/file.h"
#include "common/base/status.h"

namespace tandem::jobs {
namespace {

using nlohmann::json;

constexpr absl::string_view kPrefix = "step-";
constexpr absl::string_view kSuffix = ".jsonl";

std::string Quoted(const std::string& text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string Number(double value) {
  return std::isfinite(value) ? absl::StrFormat("%.17g", value) : "null";
}

std::string Ids(const std::vector<int>& ids) {
  return absl::StrCat("[", absl::StrJoin(ids, ","), "]");
}

std::string Floats(const std::vector<float>& values) {
  const auto format = [](std::string* out, float value) {
    if (value == 0 && std::signbit(value)) {
      *out += "-0.0";  // "-0" would be read as a whole number, which has no sign of zero
    } else {
      *out += std::isfinite(value) ? absl::StrFormat("%.9g", value) : "null";
    }
  };
  return absl::StrCat("[", absl::StrJoin(values, ",", format), "]");
}

std::string Rewards(const std::map<std::string, std::optional<double>>& rewards) {
  const auto format = [](std::string* out, const auto& entry) {
    absl::StrAppend(out, Quoted(entry.first), ":", entry.second ? Number(*entry.second) : "null");
  };
  return absl::StrCat("{", absl::StrJoin(rewards, ",", format), "}");
}

std::string Line(const CompletionRow& row) {
  return absl::StrCat(
      "{\"step\":", row.step, ",\"generation_batch\":", row.generation_batch, ",\"iteration\":", row.iteration,
      ",\"micro_batch\":", row.micro_batch, ",\"place\":", row.place, ",\"prompt_row\":", row.prompt_row,
      ",\"group\":", row.group, ",\"sample\":", row.sample, ",\"seed\":", row.seed, ",\"version\":", row.version,
      ",\"num_items_in_batch\":", row.num_items_in_batch, ",\"truncated\":", row.truncated ? "true" : "false",
      ",\"learning_rate\":", Number(row.learning_rate), ",\"advantage\":", Number(row.advantage),
      ",\"reward\":", Number(row.reward), ",\"rewards\":", Rewards(row.rewards), ",\"prompt\":", Quoted(row.prompt),
      ",\"prompt_ids\":", Ids(row.prompt_ids), ",\"completion\":", Quoted(row.completion),
      ",\"completion_ids\":", Ids(row.completion_ids), ",\"logprobs\":", Floats(row.logprobs),
      ",\"old_logprobs\":", row.old_logprobs.empty() ? "null" : Floats(row.old_logprobs), "}\n");
}

double NumberOf(const json& value) {
  return value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

std::vector<float> FloatsOf(const json& values) {
  std::vector<float> floats;
  if (values.is_null()) return floats;
  for (const json& value : values) floats.push_back(static_cast<float>(NumberOf(value)));
  return floats;
}

// Throws json::exception on a missing field or a wrong type.
CompletionRow ParseRow(const json& line) {
  CompletionRow row{.step = line.at("step"),
                    .generation_batch = line.at("generation_batch"),
                    .iteration = line.at("iteration"),
                    .micro_batch = line.at("micro_batch"),
                    .place = line.at("place"),
                    .prompt_row = line.at("prompt_row"),
                    .group = line.at("group"),
                    .sample = line.at("sample"),
                    .seed = line.at("seed"),
                    .version = line.at("version"),
                    .num_items_in_batch = line.at("num_items_in_batch"),
                    .truncated = line.at("truncated"),
                    .learning_rate = NumberOf(line.at("learning_rate")),
                    .advantage = NumberOf(line.at("advantage")),
                    .reward = NumberOf(line.at("reward")),
                    .rewards = {},
                    .prompt = line.at("prompt"),
                    .prompt_ids = line.at("prompt_ids"),
                    .completion = line.at("completion"),
                    .completion_ids = line.at("completion_ids"),
                    .logprobs = FloatsOf(line.at("logprobs")),
                    .old_logprobs = FloatsOf(line.at("old_logprobs"))};
  for (const auto& [name, value] : line.at("rewards").items()) {
    row.rewards[name] = value.is_null() ? std::nullopt : std::optional<double>(value.get<double>());
  }
  return row;
}

std::string Folder(const std::string& output_dir) {
  return absl::StrCat(output_dir, "/completions");
}

}  // namespace

std::string CompletionsPath(const std::string& output_dir, int64_t step) {
  return absl::StrCat(Folder(output_dir), "/", kPrefix, absl::StrFormat("%06d", step), kSuffix);
}

absl::Status WriteCompletions(const std::string& output_dir, int64_t step, const std::vector<CompletionRow>& rows) {
  std::error_code error;
  std::filesystem::create_directories(Folder(output_dir), error);
  if (error) return ErrnoStatus(error.value(), "make directory", Folder(output_dir));
  std::string content;
  for (const CompletionRow& row : rows) content += Line(row);
  return WriteFileAtomically(CompletionsPath(output_dir, step), content);
}

absl::StatusOr<std::vector<CompletionRow>> ReadCompletions(const std::string& path) {
  TANDEM_ASSIGN_OR_RETURN(const std::string content, ReadFile(path));
  std::vector<CompletionRow> rows;
  for (const absl::string_view text : absl::StrSplit(content, '\n', absl::SkipEmpty())) {
    try {
      rows.push_back(ParseRow(json::parse(text.begin(), text.end())));
    } catch (const json::exception& error) {
      return absl::DataLossError(absl::StrCat(path, ": row ", rows.size() + 1, ": ", error.what()));
    }
  }
  return rows;
}

absl::Status TruncateCompletions(const std::string& output_dir, int64_t step) {
  std::error_code error;
  std::filesystem::directory_iterator files(Folder(output_dir), error);
  if (error == std::errc::no_such_file_or_directory) return absl::OkStatus();
  if (error) return ErrnoStatus(error.value(), "read directory", Folder(output_dir));
  std::vector<std::filesystem::path> later;
  for (const auto& file : files) {
    const std::string name = file.path().filename().string();
    absl::string_view number = name;
    int64_t file_step = 0;
    if (absl::ConsumePrefix(&number, kPrefix) && absl::ConsumeSuffix(&number, kSuffix) &&
        absl::SimpleAtoi(number, &file_step) && file_step > step) {
      later.push_back(file.path());
    }
  }
  for (const std::filesystem::path& path : later) {
    std::filesystem::remove(path, error);
    if (error) return ErrnoStatus(error.value(), "remove", path.string());
  }
  return absl::OkStatus();
}

}  // namespace tandem::jobs
