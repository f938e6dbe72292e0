// The files that `xrun data convert` writes, found from the word on the command line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"

namespace xrun::cli {

struct ConvertTarget {
  enum class Kind { kRecords, kShards, kFolder };

  Kind kind = Kind::kFolder;
  std::string directory;           // in which the files are; for a folder, the folder that has it. May be empty
  std::vector<std::string> names;  // names of the files in it, or of the folder
  std::string class_names;         // name of the file with the names of classes; empty for a folder

  // The file with another extension: "train.idx" for "train.rec".
  static std::string with_extension(std::string_view name, std::string_view extension);
  // All names that a conversion may write, except that of class names, which several targets may share.
  std::vector<std::string> all_names() const;
  std::string path_of(const std::string& name) const { return directory.empty() ? name : directory + "/" + name; }
};

// Parses FILE.rec, FILE.tar, either with ranges such as {000..063} in its name, or the path of a folder, which ends
// with a slash or has no dot in its name. Errors: kUsage XG0943 another form, or a file that occurs twice.
Result<ConvertTarget> parse_target(const std::string& word);

// Checks that no file of the target exists, except the one with the names of classes, and that the folder for it can be
// made. Errors: kUsage XG0901.
Status check_target(const ConvertTarget& target);

// Whether the names of the classes have to be written: false if there are none, or if the file of an earlier target has
// these names. Errors: kUsage XG0901 the file has other names.
Result<bool> needs_class_names(const ConvertTarget& target, const std::vector<std::string>& names);

}  // namespace xrun::cli
