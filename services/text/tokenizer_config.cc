#include "services/text/tokenizer_config.h"

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "nlohmann/json.hpp"

namespace tandem::text {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxBytes = size_t{64} << 20;

// A string, or an object with "content"; anything else counts as absent.
std::optional<std::string> Token(const Json& json, const char* field) {
  const auto it = json.find(field);
  if (it == json.end()) return std::nullopt;
  if (it->is_string()) return it->get<std::string>();
  if (it->is_object() && it->contains("content") && (*it)["content"].is_string()) return (*it)["content"];
  return std::nullopt;
}

std::optional<std::string> Template(const Json& json) {
  const auto it = json.find("chat_template");
  if (it == json.end()) return std::nullopt;
  if (it->is_string()) return it->get<std::string>();
  if (!it->is_array()) return std::nullopt;
  for (const Json& named : *it) {
    const bool usable = named.is_object() && named.contains("template") && named["template"].is_string();
    if (usable && named.contains("name") && named["name"] == "default") return named["template"];
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<TokenizerConfig> LoadTokenizerConfig(const std::string& dir) {
  TokenizerConfig config;
  const std::string path = dir + "/tokenizer_config.json";
  auto text = ReadFile(path, kMaxBytes);
  if (text.ok()) {
    const Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object())
      return absl::InvalidArgumentError(absl::StrCat(path, " is not a JSON object; restore the file"));
    config.eos_token = Token(json, "eos_token");
    config.pad_token = Token(json, "pad_token");
    config.chat_template = Template(json);
  } else if (!absl::IsNotFound(text.status())) {
    return text.status();
  }
  auto jinja = ReadFile(dir + "/chat_template.jinja", kMaxBytes);
  if (jinja.ok()) config.chat_template = *std::move(jinja);
  if (!jinja.ok() && !absl::IsNotFound(jinja.status())) return jinja.status();
  return config;
}

}  // namespace tandem::text
