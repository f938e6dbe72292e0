// Passes the exit codes of ranks to the `--restarts` process that watches over them. It needs them because a launcher
// that has lost a host ends with an exit code of its own, which says nothing about the ranks.
#pragma once

#include <string>
#include <vector>

#include "runtime/cluster/launcher.h"

namespace xrun::cli {

// The reports of those ranks that run on this machine.
struct RankReports {
  int begun = 0;           // ranks that have begun
  bool launched = false;   // whether MPICH's launcher started them, more than one
  std::vector<int> exits;  // exit codes of the ranks that have ended; a killed rank reports none
};

// A file to which the ranks of this machine append their reports; they find it by an environment variable. The
// destructor removes it. If the file cannot be made, or ranks do not see it, nothing is reported.
class RankExits {
 public:
  RankExits();
  ~RankExits();
  RankExits(const RankExits&) = delete;
  RankExits& operator=(const RankExits&) = delete;

  // Whether ranks have begun since the last `take` and the processes of all of them have ended, also by being killed.
  // False if a process cannot be seen from here, or a rank was started without a launcher. Threads: any, but not during
  // `take`.
  bool all_gone() const;
  // Returns the reports since the last call, and empties the file.
  RankReports take();

 private:
  std::string path_;
};

// If --restarts watches over this process, these report that it begins to train, and the exit code with which it ends.
// `launch`: how the process was started.
void report_begin(const Launch& launch);
void report_exit(int exit);

}  // namespace xrun::cli
