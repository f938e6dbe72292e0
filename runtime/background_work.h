// Work that goes on beside the steps of a run, on threads of its own that run where a processor would idle.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <sys/types.h>
#include <thread>
#include <vector>

#include "ops/workers.h"

namespace xrun::runtime {

// Threads that have idle priority until somebody waits for what they do. The one that waits raises them: on a machine
// that others fill, a thread of idle priority may not run for minutes, and so cannot raise itself. Where the system
// refuses idle priority, the threads have that of the steps. Threads: any.
class IdleThreads {
 public:
  void enter();  // the calling thread
  void leave();  // the calling thread
  void raise();  // all that have entered, and those that enter from now on

 private:
  std::mutex mutex_;
  std::vector<pid_t> threads_;
  std::atomic<bool> raised_ = false;
};

// Threads: one owns it; `work` runs on others.
class BackgroundWork {
 public:
  // Starts `work`, whose workers are `threads` threads, or as many as the system lets start beside the first. Throws
  // std::system_error where it lets none start.
  BackgroundWork(int threads, std::function<void(ops::Workers& workers)> work);
  // Cancels it: items that have not begun are left out, and what the work makes is not whole.
  ~BackgroundWork();
  BackgroundWork(const BackgroundWork&) = delete;
  BackgroundWork& operator=(const BackgroundWork&) = delete;

  // Returns true when all is done, or false once `stop` is set. From now on the work has the priority of other threads.
  bool wait(const std::atomic<bool>* stop = nullptr);

 private:
  std::atomic<bool> cancelled_ = false;
  IdleThreads idle_;
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

}  // namespace xrun::runtime
