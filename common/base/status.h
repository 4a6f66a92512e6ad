#pragma once
// Propagation macros for absl::Status and the check that ends the process on a broken invariant.
// Expected failures (bad input, a peer that is gone) are absl::Status. TANDEM_CHECK is for what cannot happen.

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#define TANDEM_CONCAT_INNER(a, b) a##b
#define TANDEM_CONCAT(a, b) TANDEM_CONCAT_INNER(a, b)

// Returns the status of `expression` from the enclosing function unless it is OK.
#define TANDEM_RETURN_IF_ERROR(expression)                    \
  do {                                                        \
    if (absl::Status status_ = (expression); !status_.ok()) { \
      return status_;                                         \
    }                                                         \
  } while (false)

// TANDEM_ASSIGN_OR_RETURN(auto x, F()): x = the value of F(), or return its error.
#define TANDEM_ASSIGN_OR_RETURN(declaration, expression) \
  TANDEM_ASSIGN_OR_RETURN_IMPL(TANDEM_CONCAT(status_or_, __LINE__), declaration, expression)
#define TANDEM_ASSIGN_OR_RETURN_IMPL(temporary, declaration, expression) \
  auto temporary = (expression);                                         \
  if (!temporary.ok()) return std::move(temporary).status();             \
  declaration = *std::move(temporary)

// Ends the process, in release builds too, when `condition` is false. Further arguments are printed (absl::StrCat).
#define TANDEM_CHECK(condition, ...)                                                                        \
  do {                                                                                                      \
    if (!(condition)) [[unlikely]] {                                                                        \
      ::tandem::CheckFailed(__FILE__, __LINE__, #condition, ::absl::StrCat("" __VA_OPT__(, ) __VA_ARGS__)); \
    }                                                                                                       \
  } while (false)

namespace tandem {

// Prints the place, the condition and the values to standard error and aborts.
[[noreturn]] inline void CheckFailed(const char* file, int line, const char* condition, const std::string& values) {
  std::fprintf(stderr, "%s:%d: broken invariant: %s %s\n", file, line, condition, values.c_str());
  std::abort();
}

}  // namespace tandem
