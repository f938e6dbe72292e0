// The texts of models on disk, for the commands that read and write them as text: faults of a path, the files below a
// directory, the replacement of a file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"

namespace xrun::cli {

// Finds out why a file is not the text of a model. XG0121: it is missing, or a directory. XG0122: it may not be read.
// XG0123: it is a plan, UTF-16, binary, or the text of another tool (its name lacks `.xgraph`, and it does not begin as
// a model). Nothing if it is text, or something else that only reading shows.
std::optional<Error> find_fault(const std::string& path);

// The text of a file, cut off one byte after the longest that the parser reads. Errors: those of find_fault, and XG0122
// for what cannot be read, such as a pipe.
Result<std::string> read_model_text(const std::string& path);

// The files that the paths name, in order. A directory stands for all files below it that end in `.xgraph`, by name,
// without files and directories that begin with a dot. Errors: XG0121 a directory has no such file; XG0122.
Result<std::vector<std::string>> find_model_files(const std::vector<std::string>& paths);

// Replaces the text of an existing file atomically and durably (graph/base/durable.h, `rewrite_file`). Errors: XG0124.
Status write_model_text(const std::string& path, std::string_view text);

}  // namespace xrun::cli
