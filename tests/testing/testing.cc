#include "tests/testing/testing.h"

#include <cstdlib>
#include <filesystem>

#include "common/base/status.h"

namespace tandem::testing {

std::string TestData(const std::string& name) {
  const std::filesystem::path folder = TANDEM_TEST_DATA;  // set by CMake
  return name.empty() ? folder.string() : (folder / name).string();
}

TempDir::TempDir() {
  std::string pattern = (std::filesystem::temp_directory_path() / "tandem-test-XXXXXX").string();
  TANDEM_CHECK(mkdtemp(pattern.data()) != nullptr, pattern);
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace tandem::testing
