// Passes the exit codes of ranks to the `--restarts` process that watches over them. The launcher's own exit code is
// not sufficient: if it has lost a host, that code does not depend on the exit codes of the ranks.
#pragma once

#include <string>
#include <vector>

#include "runtime/cluster/launcher.h"

namespace xrun::cli {

// Reports of the ranks that run on this machine.
struct RankReports {
  int begun = 0;           // number of ranks that have begun
  bool launched = false;   // whether the launcher of MPICH has started more than one rank
  std::vector<int> exits;  // exit codes of ranks that have ended; killed ranks report no exit code
};

// A file to which the ranks of this machine append their reports; its path is in an environment variable. The
// destructor removes the file. If the file cannot be created, or ranks do not see it, nothing is reported.
class RankExits {
 public:
  RankExits();
  ~RankExits();
  RankExits(const RankExits&) = delete;
  RankExits& operator=(const RankExits&) = delete;

  // Whether ranks have begun since the last `take` and the processes of all of them have ended, possibly because they
  // were killed. False if this process cannot see one of them, or a rank was started without a launcher. Threads: any,
  // but not during `take`.
  bool all_gone() const;
  // Returns the reports since the last call, and empties the file.
  RankReports take();

 private:
  std::string path_;
};

// If a `--restarts` process watches this process, report_begin reports to it that the training begins, and report_exit
// reports the exit code of this process. `launch`: how this process was started.
void report_begin(const Launch& launch);
void report_exit(int exit);

}  // namespace xrun::cli
