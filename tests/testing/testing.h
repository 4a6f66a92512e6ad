#pragma once
// Where tests find and put files.

#include <string>

namespace tandem::testing {

// The absolute path of tests/data/NAME (or of the folder itself).
std::string TestData(const std::string& name = "");

// A new directory, removed with its content when the object goes.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace tandem::testing
