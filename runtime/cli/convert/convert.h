// `xrun data convert`: writes the pictures of a source in another format.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "runtime/cli/console/options.h"
#include "runtime/cli/console/outcome.h"

namespace xrun::cli {

struct ConvertArgs {
  std::string source;      // a path, a pattern of tar shards, or the call of a reader
  std::string target;      // FILE.rec, FILE.tar, a range of either, or a folder
  int64_t seed = -1;       // shuffles the samples; -1: they keep their order
  double max_bad = 0.001;  // share of the samples that may be broken
  bool all_labels = false;
};

// Adds the flags of the command.
void add_convert_flags(CLI::App& command, ConvertArgs& args);

// Writes the samples, and prints what was written. Encoded pictures are copied byte for byte. The files get their names
// when all of them are complete. Errors: those of opening the source; XG0943 the source or the target cannot be
// converted; XG0901 a target exists or cannot be written; XG0402, XG0405 a label that the target cannot hold; XG0408;
// kInterrupted.
Outcome<int> run_data_convert(const GlobalOptions& options, const ConvertArgs& args);

}  // namespace xrun::cli
