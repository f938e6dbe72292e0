// `xrun data preview`: draws samples as the network gets them.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "runtime/cli/console/options.h"
#include "runtime/cli/console/outcome.h"

namespace xrun::cli {

struct PreviewArgs {
  std::string file;
  std::string output = "samples.png";
  std::string source = "train";
  std::string input;  // the input to draw; empty: the first one with pictures
  std::string rows;   // range of samples, a..b; empty: the first ones in the order of training
  int64_t samples = 32;
  int64_t each = 1;   // draws of each sample
  int64_t seed = -1;  // -1: the seed of `train`
  int64_t epoch = 1;  // the first epoch is 1
  bool no_augment = false;
};

// Adds the flags of the command.
void add_preview_flags(CLI::App& command, PreviewArgs& args);

// Writes the sheet, and prints a line for each sample. Samples of `train` are augmented as in the epoch, mixed with
// their partners, and come in the order of its steps. Other sources are read as in an evaluation. Errors: those of
// SampleRows::open; XG0413 no such source; XG0906 the model has no such input; XG0901; XG0902; the first fault if all
// samples are broken.
Outcome<int> run_data_preview(const GlobalOptions& options, const PreviewArgs& args);

}  // namespace xrun::cli
