#pragma once
// Reads the keys of one YAML map into values, with a range for each, and collects what is wrong as FieldErrors instead
// of stopping at the first. Private to the job file's parser. A key that is absent or null leaves the value as it is.

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "services/jobs/job_spec_parser.h"

namespace tandem::jobs {

struct IntRange {
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = 1'000'000'000;
};

struct DoubleRange {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool min_open = false;  // the bound itself is refused
  bool max_open = false;
};

// The errors of a text, each with its line, so that they can be put in order.
class FieldErrors {
 public:
  void Add(const std::string& path, const YAML::Mark& mark, std::string description);
  std::vector<FieldError> InOrder() &&;

 private:
  std::vector<std::pair<int, FieldError>> errors_;  // with the line
};

class YamlMap {
 public:
  // `node` is a map (anything else is an error and reads as empty); `path` is empty at the top.
  YamlMap(const YAML::Node& node, std::string path, FieldErrors* errors);

  // Whether the key is there and not null.
  bool Has(const char* key) const;
  YAML::Node Get(const char* key);  // marks the key as known

  void Read(const char* key, std::string* value);
  void Read(const char* key, bool* value);
  void Read(const char* key, int64_t* value, IntRange range);
  void Read(const char* key, std::optional<int64_t>* value, IntRange range);
  void Read(const char* key, uint64_t* value);
  void Read(const char* key, double* value, DoubleRange range);
  void Read(const char* key, std::optional<double>* value, DoubleRange range);
  // The index of the key's value among `choices`.
  std::optional<size_t> ReadChoice(const char* key, const std::vector<std::string>& choices);
  // An error unless the key is there and not empty.
  void Require(const char* key, absl::string_view remedy);

  void AddError(const char* key, std::string description);
  // Keys that nothing has asked for, in the order of the text.
  std::vector<std::string> UnknownKeys() const;
  // An error for each of them, with the nearest of the known keys.
  void RefuseUnknownKeys();
  // The known key nearest to `key` ("" if none is near), of those asked for and `more`.
  std::string Nearest(absl::string_view key, const std::vector<std::string>& more = {}) const;
  std::string PathOf(absl::string_view key) const;

 private:
  // The scalar of `key`; nullopt if absent, null, or (an error) not a scalar.
  std::optional<std::string> Scalar(const char* key, absl::string_view wanted);
  YAML::Node Find(absl::string_view key) const;

  const YAML::Node node_;
  const std::string path_;
  FieldErrors* const errors_;
  std::set<std::string> known_;
};

// A scalar's text in quotes, or "a list" / "a map"; shortened to 60 characters.
std::string Shown(const YAML::Node& node);

}  // namespace tandem::jobs
