// `xrun man`: the pages of the manual, in the format of man(1): one for the program, one for each command.
#pragma once

#include <string>
#include <vector>

#include "runtime/cli/console/flag_table.h"
#include "runtime/cli/console/outcome.h"

namespace xrun::cli {

struct ManArgs {
  std::vector<std::string> words;  // words of the command, such as "bench" and "head"; empty: the program itself
  std::string directory;           // directory to which all pages are written; empty: one page is printed
};

// The page of the command at index `place` of the table. `version`: the version of xrun.
std::string man_page(const CommandTable& table, size_t place, const std::string& version);

// Prints a page, or writes all pages to files such as "xrun-bench-head.1".
Outcome<int> run_man(const CommandTable& table, const ManArgs& args);

}  // namespace xrun::cli
