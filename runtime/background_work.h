// Work that goes on beside the steps of a run, on threads of its own that run where a processor would idle.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <sys/types.h>
#include <thread>

#include "ops/workers.h"

namespace xrun::runtime {

// Threads: one owns it; `work` runs on others.
class BackgroundWork {
 public:
  // Starts `work`, whose workers are `threads` threads, or as many as the system lets start beside the first. Throws
  // std::system_error where it lets none start.
  BackgroundWork(int threads, std::function<void(ops::Workers& workers)> work);
  // Cancels it: items that have not begun are left out, and the call of for_each that had them does not return to the
  // work, which ends there.
  ~BackgroundWork();
  BackgroundWork(const BackgroundWork&) = delete;
  BackgroundWork& operator=(const BackgroundWork&) = delete;

  // Returns true when all is done, or false once `stop` is set. From now on the work has the priority of other threads.
  bool wait(const std::atomic<bool>* stop = nullptr);
  // The same with any reason to wait no longer.
  bool wait_unless(const std::function<bool()>& ends);

 private:
  class ThreadWorkers;
  // A busy machine gives a thread of idle priority no time at all, not even to see that it is waited for, so it is
  // the one who waits that gives all of them the priority of others.
  void raise() const;

  int threads_;
  std::atomic<bool> cancelled_ = false;
  std::atomic<bool> waited_for_ = false;
  std::atomic<bool> done_ = false;
  std::unique_ptr<std::atomic<pid_t>[]> ids_;  // of the threads that there are, by worker; 0: none
  std::thread thread_;                         // last: it reads the others
};

}  // namespace xrun::runtime
