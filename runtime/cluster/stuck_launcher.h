// Finds and kills a launcher that does not end after its ranks. mpirun waits for ever for a host that it can no longer
// reach, and for a rank that was killed while it connected to mpirun. A restart would then also wait for ever.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <sys/types.h>
#include <thread>
#include <vector>

#include "graph/base/units.h"

namespace xrun::cli {

// A process of this machine.
struct ProcessEntry {
  pid_t pid = 0;
  pid_t parent = 0;
  std::string name;      // the kernel's name of the process, at most 15 bytes
  bool is_xrun = false;  // runs the same program as this process; if so, it is a rank if there is a launcher above it
};
std::vector<ProcessEntry> list_processes();
// Whether a process of this name starts ranks: it is a launcher, or the daemon of a launcher on a host.
bool starts_ranks(const std::string& name);

// Finds a launcher that outlives its ranks: the launcher is `command` or a descendant of it, and had ranks on this
// machine. For `patience` it has had no rank, and no other child process through which it started ranks, such as a
// script. Ranks of one run end together, so ranks on other machines have also ended, or cannot be reached.
class StuckLauncher {
 public:
  explicit StuckLauncher(pid_t command, Seconds patience = 5) : command_(command), patience_(patience) {}
  // Examines the processes and returns the number of the stuck launcher's process, or 0.
  //   now   time of a clock that is the same in all calls
  //   gone  whether ranks have reported to this machine and all of them have ended; they may do so between two calls
  pid_t find(const std::vector<ProcessEntry>& processes, Seconds now, bool gone = false);
  bool had_ranks() const { return had_ranks_; }  // whether a launcher had ranks on this machine

 private:
  void note_rank(const ProcessEntry& rank, const std::map<pid_t, const ProcessEntry*>& by_pid);
  pid_t childless_launcher(const std::map<pid_t, const ProcessEntry*>& by_pid) const;

  pid_t command_;
  Seconds patience_;
  pid_t launcher_ = 0;               // process number of the launcher of the ranks
  std::map<pid_t, pid_t> children_;  // children through which launchers and daemons started ranks, and their parents
  Seconds had_rank_ = 0;             // time at which a process of `children_` was last seen
  bool had_ranks_ = false;
  bool seen_ = false;  // one of its ranks was among the processes
};

// Looks for a stuck launcher twice a second, on its own thread, while the object exists. If it finds one, it calls
// `on_stuck` and kills it. `gone`: see StuckLauncher::find; it is called on that thread.
class LauncherWatch {
 public:
  LauncherWatch(pid_t command, std::function<bool()> gone, std::function<void(const ProcessEntry& launcher)> on_stuck);
  ~LauncherWatch() { stop(); }
  LauncherWatch(const LauncherWatch&) = delete;
  LauncherWatch& operator=(const LauncherWatch&) = delete;
  void stop();                                          // ends the thread; the results below keep their values
  bool had_ranks() const { return had_ranks_.load(); }  // StuckLauncher::had_ranks
  bool killed() const { return killed_.load(); }        // whether it has killed the launcher

 private:
  std::atomic<bool> ended_{false};
  std::atomic<bool> had_ranks_{false};
  std::atomic<bool> killed_{false};
  std::thread thread_;
};

}  // namespace xrun::cli
