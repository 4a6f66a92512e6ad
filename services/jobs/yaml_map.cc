#include "services/jobs/yaml_map.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tandem::jobs {
namespace {

size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

std::string Shorten(absl::string_view text) {
  return text.size() <= 60 ? std::string(text) : absl::StrCat(text.substr(0, 57), "...");
}

std::string Bounds(const DoubleRange& range) {
  std::vector<std::string> parts;
  if (std::isfinite(range.min)) parts.push_back(absl::StrCat(range.min_open ? "above " : "at least ", range.min));
  if (std::isfinite(range.max)) parts.push_back(absl::StrCat(range.max_open ? "below " : "at most ", range.max));
  return absl::StrJoin(parts, " and ");
}

bool Contains(const DoubleRange& range, double value) {
  const bool above = range.min_open ? value > range.min : value >= range.min;
  const bool below = range.max_open ? value < range.max : value <= range.max;
  return above && below;
}

}  // namespace

std::string Shown(const YAML::Node& node) {
  if (node.IsScalar()) return absl::StrCat("'", Shorten(node.Scalar()), "'");
  if (node.IsSequence()) return "a list";
  return node.IsMap() ? "a map" : "empty";
}

void FieldErrors::Add(const std::string& path, const YAML::Mark& mark, std::string description) {
  errors_.emplace_back(mark.is_null() ? 0 : mark.line, FieldError{path, std::move(description)});
}

std::vector<FieldError> FieldErrors::InOrder() && {
  std::stable_sort(errors_.begin(), errors_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<FieldError> ordered;
  ordered.reserve(errors_.size());
  for (auto& [line, error] : errors_) ordered.push_back(std::move(error));
  return ordered;
}

YamlMap::YamlMap(const YAML::Node& node, std::string path, FieldErrors* errors)
    : node_(node), path_(std::move(path)), errors_(errors) {
  if (!node_.IsMap()) {
    errors_->Add(path_, node_.Mark(), absl::StrCat("must be a map of keys and values, is ", Shown(node_)));
    return;
  }
  std::set<std::string> seen;
  for (const auto& entry : node_) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : Shown(entry.first);
    if (!seen.insert(key).second) errors_->Add(PathOf(key), entry.first.Mark(), "stands here twice; remove one");
  }
}

std::string YamlMap::PathOf(absl::string_view key) const {
  return path_.empty() ? std::string(key) : absl::StrCat(path_, ".", key);
}

YAML::Node YamlMap::Find(absl::string_view key) const {
  if (node_.IsMap()) {
    for (const auto& entry : node_) {
      if (entry.first.IsScalar() && entry.first.Scalar() == std::string(key)) return entry.second;
    }
  }
  return YAML::Node(YAML::NodeType::Null);
}

bool YamlMap::Has(const char* key) const {
  return !Find(key).IsNull();
}

YAML::Node YamlMap::Get(const char* key) {
  known_.insert(key);
  return Find(key);
}

void YamlMap::AddError(const char* key, std::string description) {
  const YAML::Node value = Find(key);
  errors_->Add(PathOf(key), value.IsNull() ? node_.Mark() : value.Mark(), std::move(description));
}

std::optional<std::string> YamlMap::Scalar(const char* key, absl::string_view wanted) {
  const YAML::Node value = Get(key);
  if (value.IsNull()) return std::nullopt;
  if (value.IsScalar()) return value.Scalar();
  AddError(key, absl::StrCat("must be ", wanted, ", is ", Shown(value)));
  return std::nullopt;
}

void YamlMap::Read(const char* key, std::string* value) {
  std::optional<std::string> text = Scalar(key, "text");
  if (!text) return;
  if (text->find('\0') != std::string::npos) return AddError(key, "has a NUL character; remove it");
  *value = *std::move(text);
}

void YamlMap::Read(const char* key, bool* value) {
  const std::optional<std::string> text = Scalar(key, "true or false");
  if (!text) return;
  const std::string lower = absl::AsciiStrToLower(*text);
  if (lower == "true" || lower == "yes" || lower == "on") {
    *value = true;
  } else if (lower == "false" || lower == "no" || lower == "off") {
    *value = false;
  } else {
    AddError(key, absl::StrCat("must be true or false, is '", Shorten(*text), "'"));
  }
}

void YamlMap::Read(const char* key, std::optional<int64_t>* value, IntRange range) {
  const std::optional<std::string> text = Scalar(key, "a whole number");
  if (!text) return;
  int64_t number = 0;
  if (!absl::SimpleAtoi(*text, &number)) {
    AddError(key, absl::StrCat("must be a whole number, is '", Shorten(*text), "'"));
  } else if (number < range.min) {
    AddError(key, absl::StrCat("is ", number, "; must be at least ", range.min));
  } else if (number > range.max) {
    AddError(key, absl::StrCat("is ", number, "; must be at most ", range.max));
  } else {
    *value = number;
  }
}

void YamlMap::Read(const char* key, int64_t* value, IntRange range) {
  std::optional<int64_t> number;
  Read(key, &number, range);
  *value = number.value_or(*value);
}

void YamlMap::Read(const char* key, uint64_t* value) {
  const std::optional<std::string> text = Scalar(key, "a whole number");
  if (text && !absl::SimpleAtoi(*text, value)) {
    AddError(key, absl::StrCat("must be a whole number from 0 to 2^64 - 1, is '", Shorten(*text), "'"));
  }
}

void YamlMap::Read(const char* key, std::optional<double>* value, DoubleRange range) {
  const std::optional<std::string> text = Scalar(key, "a number");
  if (!text) return;
  double number = 0;
  const bool special =
      absl::StrContains(absl::AsciiStrToLower(*text), "nan") || absl::StrContains(absl::AsciiStrToLower(*text), "inf");
  if (special || (absl::SimpleAtod(*text, &number) && !std::isfinite(number))) {
    AddError(key, absl::StrCat("must be a finite number, is '", Shorten(*text), "'"));
  } else if (!absl::SimpleAtod(*text, &number)) {
    AddError(key, absl::StrCat("must be a number, is '", Shorten(*text), "'"));
  } else if (!Contains(range, number)) {
    AddError(key, absl::StrCat("is ", Shorten(*text), "; must be ", Bounds(range)));
  } else {
    *value = number;
  }
}

void YamlMap::Read(const char* key, double* value, DoubleRange range) {
  std::optional<double> number;
  Read(key, &number, range);
  *value = number.value_or(*value);
}

std::optional<size_t> YamlMap::ReadChoice(const char* key, const std::vector<std::string>& choices) {
  const std::optional<std::string> text = Scalar(key, absl::StrCat("one of ", absl::StrJoin(choices, ", ")));
  if (!text) return std::nullopt;
  const auto found = std::find(choices.begin(), choices.end(), *text);
  if (found != choices.end()) return found - choices.begin();
  AddError(key, absl::StrCat("'", Shorten(*text), "' is not supported; use ", absl::StrJoin(choices, " or ")));
  return std::nullopt;
}

void YamlMap::Require(const char* key, absl::string_view remedy) {
  if (!node_.IsMap()) return;  // said already
  const YAML::Node value = Get(key);
  if (value.IsNull() || (value.IsScalar() && value.Scalar().empty())) {
    AddError(key, absl::StrCat("is missing; ", remedy));
  }
}

std::vector<std::string> YamlMap::UnknownKeys() const {
  std::vector<std::string> unknown;
  if (!node_.IsMap()) return unknown;
  for (const auto& entry : node_) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : Shown(entry.first);
    const bool listed = std::find(unknown.begin(), unknown.end(), key) != unknown.end();
    if (!known_.contains(key) && !listed) unknown.push_back(key);
  }
  return unknown;
}

std::string YamlMap::Nearest(absl::string_view key, const std::vector<std::string>& more) const {
  std::vector<std::string> keys(known_.begin(), known_.end());
  keys.insert(keys.end(), more.begin(), more.end());
  std::string nearest;
  size_t best = std::max<size_t>(2, key.size() / 3) + 1;  // farther is no likely slip
  for (const std::string& candidate : keys) {
    const size_t distance = EditDistance(key, candidate);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

void YamlMap::RefuseUnknownKeys() {
  for (const std::string& key : UnknownKeys()) {
    const std::string nearest = Nearest(key);
    AddError(key.c_str(), absl::StrCat("unknown key '", Shorten(key), "'; ",
                                       nearest.empty() ? absl::StrCat("known are ", absl::StrJoin(known_, ", "))
                                                       : absl::StrCat("did you mean '", nearest, "'?")));
  }
}

}  // namespace tandem::jobs
