// The flags that decide a plan. A plan and a checkpoint keep them, so that the plan or the model can be made again.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/base/result.h"
#include "runtime/cli/console/options.h"

namespace xrun::cli {

// Names and values of flags, in the form in which a plan file keeps them. The value of "file" is the model's path.
using FlagPairs = std::vector<std::pair<std::string, std::string>>;

// The flags that decide the plan of the model at `path`.
FlagPairs plan_options(const std::string& path, const GlobalOptions& options);

// Adds the flags that a plan or a checkpoint was made with. Given flags take precedence, except that stored devices and
// threads replace given ones. --cost and --layer-times are not added, since a plan has its times. Sets `file` to the
// model's file.
GlobalOptions with_plan_options(GlobalOptions options, const FlagPairs& pairs, std::string& file);

// The first given flag that decides what is computed or how, so that it has no effect on an existing plan; empty if
// there is no such flag.
std::string deciding_flag(const GlobalOptions& options);

bool is_plan_file(const std::string& path);

// Checks that relative paths can be resolved. `path`: the file to read, named in the error. Errors: XG0207 the working
// directory is unknown.
Status check_working_directory(const std::string& path);

// The absolute path of a source. A plan or a checkpoint keeps it, since it may be used in another directory.
std::string source_path(const std::string& path);

// The form of a path in messages: relative if it is below the working directory, so that messages about a plan name
// files as messages about a model do.
std::string shown_path(const std::string& path);

}  // namespace xrun::cli
