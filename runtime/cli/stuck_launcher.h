// A launcher that does not end after its ranks have: mpirun waits for ever for a host that it can no longer reach. A
// restart would wait with it.
#pragma once

#include <atomic>
#include <functional>
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
  std::string name;      // as the kernel keeps it: at most 15 bytes
  bool is_rank = false;  // runs the same program as this process
};
std::vector<ProcessEntry> list_processes();

// Finds a launcher below `command` (or that process itself) that had ranks on this machine and has had none for
// `patience`. Ranks of one run end together, so those on other machines have ended, too, or are out of reach.
class StuckLauncher {
 public:
  explicit StuckLauncher(pid_t command, Seconds patience = 5) : command_(command), patience_(patience) {}
  // `now`: of one clock. Gives the process of the launcher, or 0.
  pid_t find(const std::vector<ProcessEntry>& processes, Seconds now);
  bool had_ranks() const { return had_ranks_; }  // of a launcher, on this machine

 private:
  pid_t command_;
  Seconds patience_;
  pid_t launcher_ = 0;    // whose ranks were seen
  Seconds had_rank_ = 0;  // when one was seen last
  bool had_ranks_ = false;
};

// While it lives, looks twice a second, and kills such a launcher after it has told `on_stuck`, on a thread of its own.
class LauncherWatch {
 public:
  LauncherWatch(pid_t command, std::function<void(const ProcessEntry& launcher)> on_stuck);
  ~LauncherWatch();
  LauncherWatch(const LauncherWatch&) = delete;
  LauncherWatch& operator=(const LauncherWatch&) = delete;
  bool had_ranks() const { return had_ranks_.load(); }  // StuckLauncher::had_ranks

 private:
  std::atomic<bool> ended_{false};
  std::atomic<bool> had_ranks_{false};
  std::thread thread_;
};

}  // namespace xrun::cli
