// Passes the exit codes of ranks to the `--restarts` that watches over them: a launcher that has lost a host ends with
// an exit code of its own, which tells nothing about the ranks.
#pragma once

#include <string>
#include <vector>

#include "runtime/cli/launcher.h"

namespace xrun::cli {

// What the ranks of this machine have reported.
struct RankReports {
  int begun = 0;           // ranks that have begun
  bool launched = false;   // by the launcher of MPICH, as one of several
  std::vector<int> exits;  // exit codes of those that have ended; a killed rank has none
};

// A file to which the ranks of this machine append their reports; they find it by an environment variable. The
// destructor removes it. If it cannot be made, or ranks do not see it, they report nothing.
class RankExits {
 public:
  RankExits();
  ~RankExits();
  RankExits(const RankExits&) = delete;
  RankExits& operator=(const RankExits&) = delete;

  // Whether ranks have begun since the last `take`, and the processes of all have ended, killed ones too; false where
  // one cannot be seen from here, or was started by no launcher. Threads: any, but not beside `take`.
  bool all_gone() const;
  // The reports since the last call.
  RankReports take();

 private:
  std::string path_;
};

// Report, if --restarts watches over this process, that it begins to train, and the exit code with which it ends.
// `launch`: how it was started.
void report_begin(const Launch& launch);
void report_exit(int exit);

}  // namespace xrun::cli
