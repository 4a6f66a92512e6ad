#pragma once
// Where a field path of an error stands in the job file's text. Used by the CLI to print file:line; knows nothing of
// the job's keys.

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace tandem::jobs {

// Both count from 1.
struct YamlPlace {
  int line = 1;
  int column = 1;
};

// The place of the key (or list entry) at `path`, such as "rewards[1].pattern". If the last parts are missing in the
// text, the place of what is there of it; nullopt if nothing of it is, or the text is no YAML.
std::optional<YamlPlace> LineOf(absl::string_view yaml, absl::string_view path);

// What is wrong with text that is no YAML; nullopt if it is.
struct YamlError {
  YamlPlace place;
  std::string description;
};
std::optional<YamlError> FindYamlError(absl::string_view yaml);

}  // namespace tandem::jobs
