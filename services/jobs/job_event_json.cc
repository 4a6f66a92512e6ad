#include "services/jobs/job_event_json.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tandem::jobs {
namespace {

using nlohmann::json;

constexpr const char* kKinds[] = {"state", "step", "eval", "checkpoint", "log"};  // in the order of the variant

std::string Dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

double NumberOf(const json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

std::map<std::string, double> MetricsOf(const json& object) {
  std::map<std::string, double> metrics;
  for (const auto& [name, value] : object.items()) metrics[name] = NumberOf(value);
  return metrics;
}

json ToJson(const StateChanged& e) {
  return {{"state", static_cast<int>(e.state)}, {"error", e.error}};
}
json ToJson(const StepDone& e) {
  return {{"step", e.step}, {"max_steps", e.max_steps}, {"metrics", e.metrics}, {"version", e.version}};
}
json ToJson(const EvalDone& e) {
  return {{"step", e.step}, {"rows", e.rows}, {"mean_reward", e.mean_reward}, {"seconds", e.seconds}};
}
json ToJson(const CheckpointWritten& e) {
  return {{"step", e.step}, {"path", e.path}};
}
json ToJson(const LogLine& e) {
  return {{"level", e.level}, {"text", e.text}};
}

// Throws json::exception.
EventBody Parse(const std::string& kind, const json& j) {
  if (kind == "state")
    return StateChanged{.state = static_cast<JobState>(j.at("state").get<int>()), .error = j.at("error")};
  if (kind == "step") {
    return StepDone{.step = j.at("step"),
                    .max_steps = j.at("max_steps"),
                    .metrics = MetricsOf(j.at("metrics")),
                    .version = j.at("version")};
  }
  if (kind == "eval") {
    return EvalDone{.step = j.at("step"),
                    .rows = j.at("rows"),
                    .mean_reward = NumberOf(j.at("mean_reward")),
                    .seconds = NumberOf(j.at("seconds"))};
  }
  if (kind == "checkpoint") return CheckpointWritten{.step = j.at("step"), .path = j.at("path")};
  return LogLine{.level = j.at("level"), .text = j.at("text")};
}

// Runs `parse` on the JSON of `text`; any exception is DATA_LOSS.
template <typename F>
auto Guarded(const std::string& text, F parse) -> absl::StatusOr<decltype(parse(json()))> {
  try {
    return parse(json::parse(text));
  } catch (const json::exception& error) {
    return absl::DataLossError(absl::StrCat("job database: unreadable record: ", error.what()));
  }
}

}  // namespace

const char* KindOf(const EventBody& event) {
  return kKinds[event.index()];
}

std::string EventToJson(const EventBody& event) {
  return Dump(std::visit([](const auto& body) { return ToJson(body); }, event));
}

absl::StatusOr<EventBody> EventFromJson(const std::string& kind, const std::string& text) {
  return Guarded(text, [&](const json& j) { return Parse(kind, j); });
}

std::string MetricsToJson(const std::map<std::string, double>& metrics) {
  return Dump(json(metrics));
}

absl::StatusOr<std::map<std::string, double>> MetricsFromJson(const std::string& text) {
  return Guarded(text, [](const json& j) { return MetricsOf(j); });
}

std::string SummaryToJson(const JobSummary& s) {
  return Dump({{"generation_seconds", s.generation_seconds},
               {"reward_seconds", s.reward_seconds},
               {"train_seconds", s.train_seconds},
               {"switch_seconds", s.switch_seconds},
               {"turns", s.turns},
               {"bytes_moved", s.bytes_moved},
               {"versions", s.versions},
               {"optimizer_steps", s.optimizer_steps},
               {"tokens_generated", s.tokens_generated},
               {"tokens_trained", s.tokens_trained},
               {"checkpoint", s.checkpoint}});
}

absl::StatusOr<JobSummary> SummaryFromJson(const std::string& text) {
  return Guarded(text, [](const json& j) {
    return JobSummary{.generation_seconds = j.at("generation_seconds"),
                      .reward_seconds = j.at("reward_seconds"),
                      .train_seconds = j.at("train_seconds"),
                      .switch_seconds = j.at("switch_seconds"),
                      .turns = j.at("turns"),
                      .bytes_moved = j.at("bytes_moved"),
                      .versions = j.at("versions"),
                      .optimizer_steps = j.at("optimizer_steps"),
                      .tokens_generated = j.at("tokens_generated"),
                      .tokens_trained = j.at("tokens_trained"),
                      .checkpoint = j.at("checkpoint")};
  });
}

}  // namespace tandem::jobs
