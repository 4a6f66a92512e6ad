#include "services/text/tokenizer_json.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"
#include "nlohmann/json.hpp"
#include "services/text/byte_symbols.h"

namespace tandem::text {
namespace {

using Json = nlohmann::json;
using Ids = absl::flat_hash_map<std::string, int>;

constexpr int kMaxVocab = 1 << 22;
constexpr char kSupported[] =
    "; Tandem reads byte-level BPE as GPT-2 and SmolLM2 have it: no normalizer, pre-tokenizer ByteLevel with or "
    "without "
    "Digits, decoder ByteLevel";

std::string Shown(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 80);
}

// The value of `field`; null when absent.
const Json& Field(const Json& object, const char* field) {
  static const Json* const null = new Json();
  if (!object.is_object()) return *null;
  const auto it = object.find(field);
  return it == object.end() ? *null : *it;
}
bool IsTrue(const Json& value) {
  return value.is_boolean() && value.get<bool>();
}
std::string Type(const Json& component) {
  const Json& type = Field(component, "type");
  return type.is_string() ? type.get<std::string>() : Shown(component);
}
// The parts of a component: those of a Sequence, or the component itself; empty for null.
std::vector<Json> Parts(const Json& component, const char* list) {
  if (component.is_null()) return {};
  if (Type(component) != "Sequence") return {component};
  const Json& parts = Field(component, list);
  return parts.is_array() ? parts.get<std::vector<Json>>() : std::vector<Json>{component};
}

class Reader {
 public:
  Reader(const Json& json, const std::string& where) : json_(json), where_(where) {}

  absl::StatusOr<TokenizerSpec> Read() {
    TANDEM_RETURN_IF_ERROR(CheckComponents());
    TANDEM_RETURN_IF_ERROR(ReadPreTokenizer());
    TANDEM_RETURN_IF_ERROR(ReadVocab());
    TANDEM_RETURN_IF_ERROR(CheckModel());
    TANDEM_RETURN_IF_ERROR(ReadMerges());
    TANDEM_RETURN_IF_ERROR(ReadAdded());
    return std::move(spec_);
  }

 private:
  absl::Status Error(const std::string& what) const {
    return absl::InvalidArgumentError(absl::StrCat(where_, ": ", what));
  }
  absl::Status Unsupported(const std::string& what) const {
    return Error(absl::StrCat(what, " is not supported", kSupported));
  }

  absl::Status CheckComponents() const {
    for (const Json& part : Parts(Field(json_, "normalizer"), "normalizers")) {
      return Unsupported(absl::StrCat("normalizer ", Type(part)));
    }
    for (const Json& part : Parts(Field(json_, "post_processor"), "processors")) {
      if (Type(part) != "ByteLevel") return Unsupported(absl::StrCat("post-processor ", Type(part)));
    }
    const std::vector<Json> decoders = Parts(Field(json_, "decoder"), "decoders");
    if (decoders.empty()) return Unsupported("no decoder");
    for (const Json& part : decoders) {
      if (Type(part) != "ByteLevel" || decoders.size() > 1) return Unsupported(absl::StrCat("decoder ", Type(part)));
    }
    return absl::OkStatus();
  }

  absl::Status ReadPreTokenizer() {
    const std::vector<Json> parts = Parts(Field(json_, "pre_tokenizer"), "pretokenizers");
    if (parts.empty()) return Unsupported("no pre-tokenizer");
    for (size_t i = 0; i < parts.size(); ++i) {
      const Json& part = parts[i];
      const bool last = i + 1 == parts.size();
      if (Type(part) == "Digits" && !last) {
        if (!IsTrue(Field(part, "individual_digits")))
          return Unsupported("pre-tokenizer Digits without individual_digits");
        spec_.split_digits = true;
      } else if (Type(part) == "ByteLevel" && last) {
        if (IsTrue(Field(part, "add_prefix_space")))
          return Unsupported("pre-tokenizer ByteLevel with add_prefix_space");
        const Json& regex = Field(part, "use_regex");
        if (regex.is_boolean() && !regex.get<bool>()) return Unsupported("pre-tokenizer ByteLevel without use_regex");
      } else {
        return Unsupported(absl::StrCat("pre-tokenizer ", Type(part), last ? "" : " before another one"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadVocab() {
    const Json& vocab = Field(Field(json_, "model"), "vocab");
    if (Type(Field(json_, "model")) != "BPE") return Unsupported(absl::StrCat("model ", Type(Field(json_, "model"))));
    if (!vocab.is_object() || vocab.empty()) return Error("model.vocab, an object from token to id, is needed");
    for (const auto& [token, id] : vocab.items()) TANDEM_RETURN_IF_ERROR(AddToVocab(token, id));
    for (size_t byte = 0; byte < 256; ++byte) spec_.byte_tokens[byte] = IdOf(ByteSymbols()[byte]);
    return absl::OkStatus();
  }

  absl::Status AddToVocab(const std::string& token, const Json& value) {
    const bool valid = value.is_number_integer() && value.get<int64_t>() >= 0 && value.get<int64_t>() < kMaxVocab;
    if (!valid) {
      return Error(
          absl::StrCat("token ", Shown(token), " has id ", Shown(value), "; 0 to ", kMaxVocab - 1, " is needed"));
    }
    const auto id = value.get<size_t>();
    if (spec_.vocab.size() <= id) spec_.vocab.resize(id + 1);
    if (!spec_.vocab[id].empty()) {
      return Error(absl::StrCat("tokens ", Shown(spec_.vocab[id]), " and ", Shown(token), " both have id ", id));
    }
    spec_.vocab[id] = token;
    ids_[token] = static_cast<int>(id);
    return absl::OkStatus();
  }

  absl::Status CheckModel() const {
    const Json& model = Field(json_, "model");
    const Json& dropout = Field(model, "dropout");
    if (!dropout.is_null() && dropout != 0.0) return Unsupported("model BPE with dropout");
    if (IsTrue(Field(model, "ignore_merges"))) return Unsupported("model BPE with ignore_merges");
    for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const Json& value = Field(model, affix);
      const bool none = value.is_null() || (value.is_string() && value.get<std::string>().empty());
      if (!none) return Unsupported(absl::StrCat("model BPE with ", affix));
    }
    // What happens to an unknown byte matters only where a byte is unknown.
    const bool complete =
        std::none_of(spec_.byte_tokens.begin(), spec_.byte_tokens.end(), [](int id) { return id < 0; });
    if (!complete && !Field(model, "unk_token").is_null()) return Unsupported("model BPE with unk_token");
    if (!complete && IsTrue(Field(model, "byte_fallback"))) return Unsupported("model BPE with byte_fallback");
    return absl::OkStatus();
  }

  int IdOf(const std::string& token) const {
    const auto it = ids_.find(token);
    return it == ids_.end() ? -1 : it->second;
  }

  absl::Status ReadMerges() {
    const Json& merges = Field(Field(json_, "model"), "merges");
    if (!merges.is_array()) return Error("model.merges, a list, is needed");
    for (const Json& merge : merges) {
      std::vector<std::string> pair;
      if (merge.is_string()) {
        pair = absl::StrSplit(merge.get<std::string>(), ' ');
      } else if (merge.is_array() &&
                 std::all_of(merge.begin(), merge.end(), [](const Json& x) { return x.is_string(); })) {
        pair = merge.get<std::vector<std::string>>();
      }
      if (pair.size() != 2) return Error(absl::StrCat("merge ", Shown(merge), " is not a pair of tokens"));
      const Bpe::Merge ids = {IdOf(pair[0]), IdOf(pair[1]), IdOf(pair[0] + pair[1])};
      if (ids.left < 0 || ids.right < 0 || ids.merged < 0) {
        return Error(absl::StrCat("merge ", Shown(merge), " names a token, or makes one, that model.vocab lacks"));
      }
      spec_.merges.push_back(ids);
    }
    return absl::OkStatus();
  }

  absl::Status ReadAdded() {
    const Json& added = Field(json_, "added_tokens");
    if (added.is_null()) return absl::OkStatus();
    if (!added.is_array()) return Error("added_tokens is not a list");
    const int model_tokens = static_cast<int>(ids_.size());
    int highest = -1;
    for (const Json& token : added) {
      const Json& content = Field(token, "content");
      if (!content.is_string() || content.get<std::string>().empty()) {
        return Error(absl::StrCat("added token ", Shown(token), " has no content"));
      }
      for (const char* option : {"single_word", "lstrip", "rstrip"}) {
        if (IsTrue(Field(token, option)))
          return Unsupported(absl::StrCat("added token ", Shown(content), " with ", option));
      }
      AddedToken result;
      result.content = content.get<std::string>();
      result.special = IsTrue(Field(token, "special"));
      result.normalized = IsTrue(Field(token, "normalized"));
      result.id = IdOf(result.content);
      if (result.id < 0) {
        // What the tokenizers library does, whatever the file says.
        result.id = highest >= model_tokens ? highest + 1 : model_tokens;
        TANDEM_RETURN_IF_ERROR(AddToVocab(result.content, result.id));
      }
      highest = std::max(highest, result.id);
      if (Field(token, "id") != result.id) {
        return Error(absl::StrCat("added token ", Shown(content), " has id ", Shown(Field(token, "id")),
                                  ", but model.vocab and the tokens before give it ", result.id));
      }
      spec_.added.push_back(std::move(result));
    }
    return absl::OkStatus();
  }

  const Json& json_;
  const std::string& where_;
  TokenizerSpec spec_;
  Ids ids_;
};

}  // namespace

absl::StatusOr<TokenizerSpec> ParseTokenizerJson(const std::string& text, const std::string& where) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, " is not a JSON object (", text.size(), " bytes); restore the file"));
  }
  return Reader(json, where).Read();
}

}  // namespace tandem::text
