// `xrun data`: commands about files of data, which need no model.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "runtime/cli/console/options.h"
#include "runtime/cli/console/outcome.h"

namespace xrun::cli {

struct DataShowArgs {
  std::vector<std::string> sources;  // paths, patterns of tar shards, or calls of readers
  int samples = 5;                   // number of first samples to print
};

struct DataIndexArgs {
  std::vector<std::string> paths;  // tar shards, patterns, directories
  bool all = false;                // also write indices that are valid
};

// Add the flags of the commands.
void add_show_flags(CLI::App& command, DataShowArgs& args);
void add_index_flags(CLI::App& command, DataIndexArgs& args);

// Prints what each source holds. A source that cannot be opened is reported, and the next one follows.
Outcome<int> run_data_show(const GlobalOptions& options, const DataShowArgs& args);
// Writes the indices of tar shards next to them. Shards that fail are reported, and the others are indexed.
Outcome<int> run_data_index(const GlobalOptions& options, const DataIndexArgs& args);

}  // namespace xrun::cli
