#include "services/jobs/dataset.h"

#include <sys/stat.h>

#include <cerrno>
#include <fstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/file.h"
#include "common/base/status.h"

namespace tandem::jobs {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{8} << 30;
constexpr size_t kMaxLineBytes = size_t{16} << 20;
constexpr int kMaxDepth = 64;  // of nested lists and objects in a row

absl::Status LineError(const std::string& path, int64_t line, absl::string_view reason) {
  return absl::InvalidArgumentError(absl::StrCat(path, ":", line, ": ", reason));
}

// The library's text without its prefix "[json.exception.parse_error.101] ".
std::string Reason(const nlohmann::json::exception& error) {
  const absl::string_view text = error.what();
  const size_t end = text.find("] ");
  return std::string(end == absl::string_view::npos ? text : text.substr(end + 2)).substr(0, 300);
}

// Deep nesting is refused before parsing: values are freed recursively.
bool IsTooDeep(absl::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

absl::StatusOr<DatasetRow> ParseLine(const std::string& path, int64_t line, absl::string_view text) {
  if (text.size() > kMaxLineBytes) return LineError(path, line, absl::StrCat("longer than ", kMaxLineBytes, " bytes"));
  if (IsTooDeep(text)) return LineError(path, line, absl::StrCat("nested more than ", kMaxDepth, " levels deep"));
  DatasetRow row{.line = line, .json = {}};
  try {
    row.json = nlohmann::json::parse(text.begin(), text.end());  // refuses what is not UTF-8
  } catch (const nlohmann::json::exception& error) {
    return LineError(path, line, absl::StrCat("not a JSON object: ", Reason(error)));
  }
  if (!row.json.is_object()) {
    return LineError(path, line,
                     absl::StrCat("is ", row.json.type_name(), ", must be a JSON object like {\"prompt\": \"...\"}"));
  }
  return row;
}

// One line without its end; false at the end of the file. A longer line than the bound is cut behind it.
bool ReadLine(std::ifstream& file, std::string& text) {
  text.clear();
  std::streambuf& buffer = *file.rdbuf();
  for (int c = buffer.sbumpc(); c != std::char_traits<char>::eof(); c = buffer.sbumpc()) {
    if (c == '\n') return true;
    text.push_back(static_cast<char>(c));
    if (text.size() > kMaxLineBytes) return true;
  }
  return !text.empty();
}

absl::Status CheckFile(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, "open", path);
  if (!S_ISREG(info.st_mode))
    return absl::InvalidArgumentError(absl::StrCat(path, ": is not a file; give a JSONL file"));
  if (info.st_size > kMaxFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": has ", info.st_size, " bytes; at most ", kMaxFileBytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Dataset> LoadJsonl(const std::string& path, int64_t max_rows) {
  TANDEM_RETURN_IF_ERROR(CheckFile(path));
  std::ifstream file(path, std::ios::binary);
  if (!file) return ErrnoStatus(errno, "open", path);
  Dataset dataset{.path = path, .rows = {}};
  std::string text;
  for (int64_t line = 1; ReadLine(file, text); ++line) {
    absl::string_view content = text;
    if (line == 1) absl::ConsumePrefix(&content, "\xEF\xBB\xBF");  // byte order mark
    content = absl::StripAsciiWhitespace(content);
    if (content.empty()) continue;
    TANDEM_ASSIGN_OR_RETURN(DatasetRow row, ParseLine(path, line, content));
    dataset.rows.push_back(std::move(row));
    if (max_rows > 0 && static_cast<int64_t>(dataset.rows.size()) == max_rows) break;
  }
  if (dataset.rows.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": has no rows"));
  return dataset;
}

absl::Status RequireColumn(const Dataset& dataset, absl::string_view column) {
  for (const DatasetRow& row : dataset.rows) {
    if (row.json.contains(std::string(column))) continue;
    const std::string columns =
        absl::StrJoin(row.json.items(), ", ", [](std::string* out, const auto& item) { *out += item.key(); });
    return LineError(dataset.path, row.line,
                     absl::StrCat("no column '", column, "'; the columns are: ", columns.empty() ? "(none)" : columns));
  }
  return absl::OkStatus();
}

}  // namespace tandem::jobs
