// `xrun import`: makes a checkpoint from files of weights that other programs wrote.
#pragma once

#include <string>
#include <vector>

#include "runtime/cli/console/options.h"
#include "runtime/cli/console/outcome.h"

namespace xrun::cli {

struct ImportArgs {
  std::vector<std::string> files;  // files of weights; several: one for each rank of their run
  std::string into;                // path of the model
  std::string output;              // directory of the checkpoint
  std::string names;               // path of a name table, or the name of one; empty: xrun chooses one
  std::string at;                  // path of the network in the model; ".": the model itself; empty: it is found
  std::vector<std::string> skip;   // paths of the model that get initial values
  bool overwrite = false;          // rename a checkpoint that is at `output`
};

Outcome<int> run_import(const GlobalOptions& options, const ImportArgs& args);

}  // namespace xrun::cli
