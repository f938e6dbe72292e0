// Work that goes on beside the steps of a run, on threads of its own that run where a processor would idle.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
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

 private:
  class Priority;
  class ThreadWorkers;

  std::unique_ptr<Priority> priority_;
  std::atomic<bool> cancelled_ = false;
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

}  // namespace xrun::runtime
