#pragma once
// Runs check_saved.py, which needs Python with torch and transformers: the interpreter in TANDEM_PYTHON, else python3.

#include <string>

namespace tandem::testing {

struct CheckResult {
  bool skipped;
  std::string output;  // "equal\n", what is wrong, or why it was skipped
};
CheckResult RunCheckSaved(const std::string& saved, const std::string& original = "");

}  // namespace tandem::testing
