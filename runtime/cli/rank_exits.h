// Passes the exit codes of ranks to the `--restarts` process that watches over them: a launcher that has lost a host
// ends with an exit code of its own, which says nothing about the ranks.
#pragma once

#include <string>
#include <vector>

#include "runtime/cli/launcher.h"

namespace xrun::cli {

// The reports of the ranks of this machine.
struct RankReports {
  int begun = 0;           // ranks that have begun
  bool launched = false;   // started by the launcher of MPICH, as one of several
  std::vector<int> exits;  // exit codes of those that have ended; a killed rank has none
};

// A file to which the ranks of this machine append their reports; they find it by an environment variable. The
// destructor removes it. If the file cannot be made, or ranks do not see it, nothing is reported.
class RankExits {
 public:
  RankExits();
  ~RankExits();
  RankExits(const RankExits&) = delete;
  RankExits& operator=(const RankExits&) = delete;

  // Whether ranks have begun since the last `take`, and the processes of all have ended, including killed ones; false
  // if one cannot be seen from here, or was started without a launcher. Threads: any, but not during `take`.
  bool all_gone() const;
  // The reports since the last call.
  RankReports take();

 private:
  std::string path_;
};

// These report, if --restarts watches over this process, that it begins to train, and the exit code with which it ends.
// `launch`: how the process was started.
void report_begin(const Launch& launch);
void report_exit(int exit);

}  // namespace xrun::cli
