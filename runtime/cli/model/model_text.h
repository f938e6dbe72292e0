// The texts of models on disk, for commands that read and write them as text: finds faults of a path and the files
// below a directory, and replaces files.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"

namespace xrun::cli {

// Finds out why a file is not the text of a model. XG0121: it is missing, or a directory. XG0122: it may not be read.
// XG0123: it is a plan, UTF-16, binary, or the text of another tool (its name lacks `.xgraph`, and it does not begin as
// a model). Returns nullopt if it is text, or if only reading it can show what it is, as for a pipe.
std::optional<Error> find_fault(const std::string& path);

// Reads the text of a file, up to one byte more than the longest text that the parser accepts. Errors: those of
// find_fault; XG0122 it cannot be read, such as a pipe.
Result<std::string> read_model_text(const std::string& path);

// Lists the files that the paths name, in order. A directory is replaced by all files below it that end in `.xgraph`,
// sorted by name; files and directories that begin with a dot are skipped. Errors: XG0121 a directory has no such file;
// XG0122.
Result<std::vector<std::string>> find_model_files(const std::vector<std::string>& paths);

// Replaces the text of an existing file atomically and durably (graph/os/durable.h, `rewrite_file`). Errors: XG0124.
Status write_model_text(const std::string& path, std::string_view text);

}  // namespace xrun::cli
