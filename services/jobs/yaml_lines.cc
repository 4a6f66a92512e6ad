#include "services/jobs/yaml_lines.h"

#include <yaml-cpp/yaml.h>

#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/numbers.h"

namespace tandem::jobs {
namespace {

// A key of a map or an index into a list.
using Part = std::variant<std::string, size_t>;

// "rewards[1].pattern" to rewards, 1, pattern. Brackets that hold no number belong to the key.
std::vector<Part> SplitPath(absl::string_view path) {
  std::vector<Part> parts;
  std::string key;
  const auto end_key = [&] {
    if (!key.empty()) parts.emplace_back(std::exchange(key, ""));
  };
  for (size_t i = 0; i < path.size(); ++i) {
    const size_t close = path[i] == '[' ? path.find(']', i) : absl::string_view::npos;
    size_t index = 0;
    if (path[i] == '.') {
      end_key();
    } else if (close != absl::string_view::npos && absl::SimpleAtoi(path.substr(i + 1, close - i - 1), &index)) {
      end_key();
      parts.emplace_back(index);
      i = close;
    } else {
      key += path[i];
    }
  }
  end_key();
  return parts;
}

YamlPlace PlaceOf(const YAML::Mark& mark) {
  return mark.is_null() ? YamlPlace{} : YamlPlace{mark.line + 1, mark.column + 1};
}

// The key node and the value node of `part` in `node`; the key of a list entry is the entry itself.
std::optional<std::pair<YAML::Node, YAML::Node>> Child(const YAML::Node& node, const Part& part) {
  if (const size_t* index = std::get_if<size_t>(&part)) {
    if (!node.IsSequence() || *index >= node.size()) return std::nullopt;
    return std::make_pair(node[*index], node[*index]);
  }
  if (!node.IsMap()) return std::nullopt;
  for (const auto& entry : node) {
    if (entry.first.IsScalar() && entry.first.Scalar() == std::get<std::string>(part)) {
      return std::make_pair(YAML::Node(entry.first), YAML::Node(entry.second));
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<YamlPlace> LineOf(absl::string_view yaml, absl::string_view path) {
  std::optional<YamlPlace> place;
  try {
    YAML::Node node = YAML::Load(std::string(yaml));
    for (const Part& part : SplitPath(path)) {
      const auto child = Child(node, part);
      if (!child) break;
      place = PlaceOf(child->first.Mark());
      node.reset(child->second);
    }
  } catch (const YAML::Exception&) {
    return std::nullopt;
  }
  return place;
}

std::optional<YamlError> FindYamlError(absl::string_view yaml) {
  try {
    YAML::Load(std::string(yaml));
  } catch (const YAML::Exception& e) {
    return YamlError{PlaceOf(e.mark), e.msg};
  }
  return std::nullopt;
}

}  // namespace tandem::jobs
