// Work in the background of a run. It has its own threads, which run only on processors that would otherwise be idle.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <sys/types.h>
#include <thread>

#include "ops/workers.h"

namespace xrun::runtime {

// Threads: the thread that owns the object makes all calls; `work` runs on other threads.
class BackgroundWork {
 public:
  // Starts `work` with `threads` workers, or fewer if the system refuses further threads. Throws std::system_error if
  // it refuses the first thread.
  BackgroundWork(int threads, std::function<void(ops::Workers& workers)> work);
  // Cancels the work and waits for its end. Items that have not begun are skipped. A call of for_each that skips items
  // throws, so that no later code of the work reads missing results.
  ~BackgroundWork();
  BackgroundWork(const BackgroundWork&) = delete;
  BackgroundWork& operator=(const BackgroundWork&) = delete;

  bool done() const { return done_; }
  // Gives the work's threads normal priority from now on. Threads: any.
  void hurry();
  // Returns true when the work is done, or false once `stop` is set. Its threads have normal priority from then on.
  bool wait(const std::atomic<bool>* stop = nullptr);
  // Like `wait`, but returns false once `ends` returns true.
  bool wait_unless(const std::function<bool()>& ends);

 private:
  class ThreadWorkers;
  // Gives all threads of the work normal priority. The waiting thread calls this, since on a busy machine a thread of
  // idle priority gets no processor time to raise its own priority.
  void raise() const;

  int threads_;
  std::atomic<bool> cancelled_ = false;
  std::atomic<bool> waited_for_ = false;
  std::atomic<bool> done_ = false;
  std::unique_ptr<std::atomic<pid_t>[]> ids_;  // ids of the running threads; index: worker; 0: not running
  std::thread thread_;                         // last member, because its function reads the others
};

// Runs `body`, which holds a lock, with normal priority. A step may wait for that lock, and on a busy machine a thread
// of idle priority may get no processor time to release it. Afterwards a thread of idle priority has idle priority
// again, unless `stays` is set; a caller of `hurry` sets it before the call.
void run_at_normal_priority(const std::function<void()>& body, const std::atomic<bool>& stays);

}  // namespace xrun::runtime
