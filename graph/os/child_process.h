// A program that this process starts and waits for.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "graph/base/stop.h"
#include "graph/base/units.h"

namespace xrun {

struct ChildOptions {
  std::string output = "";                // a file for its output and errors, which is replaced; empty: ours
  std::vector<std::string> without = {};  // variables that its environment lacks
};

// A child process. It gets SIGTERM when the thread that started it ends, so it does not outlive its parent. The
// destructor kills a child that still runs. One thread starts it and waits; `pid` may be called by any thread.
class ChildProcess {
 public:
  ChildProcess() = default;
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;

  /// Starts a program, which is found in PATH unless its name has a slash. Signals that xrun ignores have their usual
  /// effect in it. REQUIRES: no child runs, and `words` begin with the program. @return 0, or the errno of the failure.
  int start(const std::vector<std::string>& words, const ChildOptions& options = {});

  /// Waits for the end. @return the exit code, or 128 + the signal that ended the child, as in shells.
  int wait();
  /// Does the same, but kills the child after this time, or once `stop` is set. @return nullopt if it was killed.
  std::optional<int> wait_at_most(Seconds limit, StopFlag stop = nullptr);

  pid_t pid() const { return pid_.load(); }  // 0: not running

 private:
  std::atomic<pid_t> pid_{0};
};

inline constexpr int kSignalled = 128;  // the exit code of a child that a signal ended is this plus the signal

}  // namespace xrun
