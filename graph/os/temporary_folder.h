// A folder for results that are not complete yet.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "graph/base/result.h"

namespace xrun {

// A folder that its destructor removes with everything in it. Files that are complete are renamed out of it, so it is
// on the file system of its target.
class TemporaryFolder {
 public:
  /// Makes the folder `TARGET.tmp-PID` next to a target, empty also if a killed process left one. `code`: the code of
  /// the error. Errors: kWorld if it cannot be made.
  static Result<std::unique_ptr<TemporaryFolder>> next_to(const std::string& target, std::string_view code);

  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

  /// Renames a file or folder of this folder to its place. Errors: kWorld with the code.
  Status release(const std::string& name, const std::string& place, std::string_view code) const;

 private:
  std::string path_;
};

}  // namespace xrun
