#pragma once
// Typed, range-checked reading of the fields of one JSON object, with errors that name file, field, value and what is
// accepted. null counts as absent, as in transformers. Keeps no error state: every getter returns its own.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace tandem {

// `text` as shown in errors: escaped, quoted, at most 80 characters.
std::string Quoted(absl::string_view text);

// `text` as a JSON object, or INVALID_ARGUMENT with `where` and the place of the mistake.
absl::StatusOr<nlohmann::ordered_json> ParseJsonObject(const std::string& text, const std::string& where);

class JsonFields {
 public:
  // `object` must outlive this.
  JsonFields(const nlohmann::ordered_json& object, std::string where) : object_(object), where_(std::move(where)) {}

  // The value, or nullptr when absent or null.
  const nlohmann::ordered_json* Find(const std::string& field) const;
  bool Has(const std::string& field) const { return Find(field) != nullptr; }

  // In [low, high]. Without `fallback` the field is required.
  absl::StatusOr<int> Int(const std::string& field, int64_t low, int64_t high) const;
  absl::StatusOr<int> Int(const std::string& field, int64_t low, int64_t high, int fallback) const;
  absl::StatusOr<double> Number(const std::string& field, double low, double high, double fallback) const;
  absl::StatusOr<bool> Bool(const std::string& field, bool fallback) const;
  absl::StatusOr<std::string> String(const std::string& field, const std::string& fallback) const;

  // INVALID_ARGUMENT "WHERE: FIELD is VALUE: `problem`".
  absl::Status Error(const std::string& field, absl::string_view problem) const;

 private:
  const nlohmann::ordered_json& object_;
  std::string where_;
};

}  // namespace tandem
