// Files and directories that a source of pictures leaves out: they are counted, and a warning lists the first of them.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"

namespace xrun::runtime {

// Whether a directory of this name contains files of a tool instead of a class: its name begins with a dot
// (.ipynb_checkpoints, .thumbnails), or a system or a storage device creates it (@eaDir, lost+found, __pycache__,
// __MACOSX).
bool is_tool_directory(std::string_view name);

// Returns the path of the first tool directory in the path of a file: "cat/@eaDir" for "cat/@eaDir/1/2.png"; empty if
// the path contains no such directory.
std::string_view tool_directory_of(std::string_view file);

// The number of files that were left out, and the names of the first twenty in byte order.
class LeftOut {
 public:
  void add(std::string name);
  int64_t count() const { return count_; }
  std::string names() const;  // "a/6.gif, b/7.tiff and 3 more"

 private:
  int64_t count_ = 0;
  std::set<std::string> first_;
};

// The files that a source leaves out, by kind.
struct FolderLeftOut {
  LeftOut others;  // files that are not pictures
  LeftOut strays;  // pictures outside of the class directories
  LeftOut tools;   // directories that tools create

  std::string describe() const;         // ", 2 other files, 1 directory left out"; empty: nothing
  std::vector<Error> warnings() const;  // XG0415, one warning for each kind
};

}  // namespace xrun::runtime
