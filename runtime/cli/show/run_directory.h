// The directory of a run as a user names it: the directory of its checkpoints and its log, or one above that (-C).
#pragma once

#include <string>
#include <vector>

#include "graph/base/result.h"
#include "runtime/cli/console/console.h"

namespace xrun::cli {

struct FoundRun {
  std::string directory;
  bool has_checkpoint = false;
  std::string log;  // path of the log; empty: there is no log
};

// Finds the runs in a directory and in directories up to three levels below it, sorted by name. REQUIRES: `directory`
// is a directory.
std::vector<FoundRun> find_runs(const std::string& directory);

// Describes the only run in a directory by its log and its last checkpoint: as text, or as a JSON document {v,
// directory, log, checkpoint} with null for a missing part. Errors: XG0909 there is no run; kUsage XG0906 there are
// several; those of reading.
Result<std::string> describe_run(const std::string& directory, const Console& console);

}  // namespace xrun::cli
