#pragma once
// The little of SQLite that job_store uses: statements with bound values, errors as absl::Status. One thread at a time.

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tandem::jobs {

// The connection's last error: the database's path, what was done, the reason, and the remedy where there is one.
absl::Status SqliteStatus(sqlite3* database, absl::string_view action);

// Runs statements without values or rows.
absl::Status Execute(sqlite3* database, const char* sql);

// A prepared statement. Errors of preparing and binding come out of Step.
//   Statement query(db, "SELECT name FROM jobs WHERE id = ?");
//   query.Bind(id);
//   TANDEM_ASSIGN_OR_RETURN(bool row, query.Step());
class Statement {
 public:
  Statement(sqlite3* database, const char* sql);
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Bind the next parameter.
  Statement& Bind(int64_t value);
  Statement& Bind(double value);
  Statement& Bind(absl::string_view value);
  Statement& BindNull();

  // Runs up to the next row; false: there is none.
  absl::StatusOr<bool> Step();
  // Runs a statement that has no rows.
  absl::Status Run();

  int64_t Int(int column) { return sqlite3_column_int64(statement_, column); }
  double Double(int column) { return sqlite3_column_double(statement_, column); }
  std::string Text(int column);

 private:
  sqlite3* const database_;
  sqlite3_stmt* statement_ = nullptr;
  int parameter_ = 0;
  int result_ = SQLITE_OK;  // of preparing and binding
};

// BEGIN IMMEDIATE ... COMMIT; rolled back unless committed.
class Transaction {
 public:
  explicit Transaction(sqlite3* database) : database_(database) {}
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  absl::Status Begin();
  absl::Status Commit();

 private:
  sqlite3* const database_;
  bool open_ = false;
};

}  // namespace tandem::jobs
