#include "services/jobs/sqlite.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace tandem::jobs {

absl::Status SqliteStatus(sqlite3* database, absl::string_view action) {
  const int code = sqlite3_errcode(database) & 0xff;
  const char* path = sqlite3_db_filename(database, "main");
  const std::string text =
      absl::StrCat("job database ", path == nullptr ? "" : path, ": ", action, ": ", sqlite3_errmsg(database));
  switch (code) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::UnavailableError(absl::StrCat(text, "; another process uses it: stop the other trainer"));
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(absl::StrCat(text, "; move the file away to start with an empty one"));
    case SQLITE_FULL:
      return absl::ResourceExhaustedError(absl::StrCat(text, "; free some disk space"));
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
      return absl::PermissionDeniedError(absl::StrCat(text, "; check the directory and its permissions"));
    default:
      return absl::InternalError(text);
  }
}

absl::Status Execute(sqlite3* database, const char* sql) {
  if (sqlite3_exec(database, sql, nullptr, nullptr, nullptr) == SQLITE_OK) return absl::OkStatus();
  return SqliteStatus(database, sql);
}

Statement::Statement(sqlite3* database, const char* sql) : database_(database) {
  result_ = sqlite3_prepare_v2(database, sql, -1, &statement_, nullptr);
}

Statement& Statement::Bind(int64_t value) {
  if (result_ == SQLITE_OK) result_ = sqlite3_bind_int64(statement_, ++parameter_, value);
  return *this;
}

Statement& Statement::Bind(double value) {
  if (result_ == SQLITE_OK) result_ = sqlite3_bind_double(statement_, ++parameter_, value);
  return *this;
}

Statement& Statement::Bind(absl::string_view value) {
  if (result_ == SQLITE_OK) {
    result_ = sqlite3_bind_text64(statement_, ++parameter_, value.data(), value.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  }
  return *this;
}

Statement& Statement::BindNull() {
  if (result_ == SQLITE_OK) result_ = sqlite3_bind_null(statement_, ++parameter_);
  return *this;
}

absl::StatusOr<bool> Statement::Step() {
  if (result_ != SQLITE_OK) return SqliteStatus(database_, "prepare");
  const int result = sqlite3_step(statement_);
  if (result == SQLITE_ROW) return true;
  if (result == SQLITE_DONE) return false;
  return SqliteStatus(database_, sqlite3_sql(statement_));
}

absl::Status Statement::Run() {
  return Step().status();
}

std::string Statement::Text(int column) {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  return text == nullptr ? std::string()
                         : std::string(text, static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
}

Transaction::~Transaction() {
  if (open_) sqlite3_exec(database_, "ROLLBACK", nullptr, nullptr, nullptr);
}

absl::Status Transaction::Begin() {
  TANDEM_RETURN_IF_ERROR(Execute(database_, "BEGIN IMMEDIATE"));
  open_ = true;
  return absl::OkStatus();
}

absl::Status Transaction::Commit() {
  TANDEM_RETURN_IF_ERROR(Execute(database_, "COMMIT"));
  open_ = false;
  return absl::OkStatus();
}

}  // namespace tandem::jobs
