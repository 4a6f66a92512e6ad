#include "services/checkpoint/json_fields.h"

#include <limits>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace tandem {

using Json = nlohmann::ordered_json;

std::string Quoted(absl::string_view text) {
  constexpr size_t kShown = 80;
  if (text.size() <= kShown) return absl::StrCat("\"", absl::Utf8SafeCHexEscape(text), "\"");
  return absl::StrCat("\"", absl::Utf8SafeCHexEscape(text.substr(0, kShown)), "...\"");
}

absl::StatusOr<Json> ParseJsonObject(const std::string& text, const std::string& where) {
  Json object = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (object.is_discarded()) {
    return absl::InvalidArgumentError(absl::StrCat(where, " is not valid JSON (", text.size(), " bytes, starts with ",
                                                   Quoted(text.substr(0, 40)), "); restore the file"));
  }
  if (!object.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(where, " holds a JSON ", object.type_name(), ", not an object"));
  }
  return object;
}

const Json* JsonFields::Find(const std::string& field) const {
  const auto it = object_.find(field);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

absl::Status JsonFields::Error(const std::string& field, absl::string_view problem) const {
  const Json* value = Find(field);
  const std::string shown =
      value == nullptr ? "missing" : value->dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 80);
  return absl::InvalidArgumentError(absl::StrCat(where_, ": ", field, " is ", shown, ": ", problem));
}

absl::StatusOr<int> JsonFields::Int(const std::string& field, int64_t low, int64_t high) const {
  const Json* value = Find(field);
  const std::string accepted = absl::StrCat("a whole number from ", low, " to ", high, " is needed");
  if (value == nullptr || !value->is_number_integer()) return Error(field, accepted);
  if (value->is_number_unsigned() && value->get<uint64_t>() > uint64_t{std::numeric_limits<int>::max()}) {
    return Error(field, accepted);
  }
  const auto number = value->get<int64_t>();
  if (number < low || number > high) return Error(field, accepted);
  return static_cast<int>(number);
}

absl::StatusOr<int> JsonFields::Int(const std::string& field, int64_t low, int64_t high, int fallback) const {
  if (!Has(field)) return fallback;
  return Int(field, low, high);
}

absl::StatusOr<double> JsonFields::Number(const std::string& field, double low, double high, double fallback) const {
  const Json* value = Find(field);
  if (value == nullptr) return fallback;
  if (!value->is_number() || value->get<double>() < low || value->get<double>() > high) {
    return Error(field, absl::StrCat("a number from ", low, " to ", high, " is needed"));
  }
  return value->get<double>();
}

absl::StatusOr<bool> JsonFields::Bool(const std::string& field, bool fallback) const {
  const Json* value = Find(field);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) return Error(field, "true or false is needed");
  return value->get<bool>();
}

absl::StatusOr<std::string> JsonFields::String(const std::string& field, const std::string& fallback) const {
  const Json* value = Find(field);
  if (value == nullptr) return fallback;
  if (!value->is_string()) return Error(field, "a string is needed");
  return value->get<std::string>();
}

}  // namespace tandem
