// `xrun man`: the pages of the manual, in the format of man(1): one for the program, one for each command.
#pragma once

#include <string>
#include <vector>

#include "runtime/cli/flag_table.h"
#include "runtime/cli/options.h"

namespace xrun::cli {

struct ManArgs {
  std::vector<std::string> words;  // the command, "bench", "head"; empty: the program itself
  std::string directory;           // where all pages are written; empty: print one
};

// The page of the command at `place` of the table; `version` is that of xrun.
std::string man_page(const CommandTable& table, size_t place, const std::string& version);

// Prints a page or writes all of them, "xrun-bench-head.1", and gives the exit code.
int run_man(const GlobalOptions& options, const CommandTable& table, const ManArgs& args);

}  // namespace xrun::cli
