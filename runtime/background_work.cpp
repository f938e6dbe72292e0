#include "runtime/background_work.h"

#include <chrono>
#include <cstdint>
#include <sched.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include "ops/compute_modes.h"

namespace xrun::runtime {
namespace {

// Ends the work behind a call whose items were not all done: what follows would read what they have not written. An
// exception of this file, since nothing between `for_each` and the thread's first function has to know of it.
struct Cancelled {};

// 0: the calling thread. Where the system refuses it, the work has the priority of the steps.
void set_policy(pid_t thread, int policy) {
  const sched_param none{};
  sched_setscheduler(thread, policy, &none);
}

}  // namespace

// The threads of the work, by worker: they run where a processor would idle, until somebody waits for them. On a busy
// machine such a thread may stand still in the middle of an item for minutes, so whoever waits raises all at once.
// Without a lock, which a thread that stands still might hold.
class BackgroundWork::Priority {
 public:
  explicit Priority(int threads) : threads_(static_cast<size_t>(threads)) {}

  void enter(int worker) {
    threads_[static_cast<size_t>(worker)] = gettid();
    if (!raised_) {
      set_policy(0, SCHED_IDLE);
    }
  }
  void leave(int worker) { threads_[static_cast<size_t>(worker)] = 0; }
  void raise() {
    raised_ = true;
    for (const std::atomic<pid_t>& thread : threads_) {
      if (const pid_t id = thread; id != 0) {
        set_policy(id, SCHED_OTHER);
      }
    }
  }

 private:
  std::atomic<bool> raised_ = false;
  std::vector<std::atomic<pid_t>> threads_;  // 0: none runs
};

// Threads for the items of one call, which take longer than it takes to start them.
class BackgroundWork::ThreadWorkers final : public ops::Workers {
 public:
  ThreadWorkers(int threads, Priority& priority, const std::atomic<bool>& cancelled)
      : threads_(threads), priority_(priority), cancelled_(cancelled) {}

  int count() const override { return threads_; }

  void for_each(int64_t items, ops::ItemBody body) override {
    std::atomic<int64_t> next = 0;
    const auto take_items = [&](int worker) {
      const ops::ComputeModes modes;
      for (int64_t item = next++; item < items && !cancelled_; item = next++) {
        body(item, worker);
      }
    };
    std::vector<std::thread> others;
    try {
      for (int worker = 1; worker < threads_ && worker < items; ++worker) {
        others.emplace_back([&, worker] {
          priority_.enter(worker);
          take_items(worker);
          priority_.leave(worker);
        });
      }
    } catch (const std::system_error&) {
      // Those that have started do the rest.
    }
    take_items(0);
    for (std::thread& other : others) {
      other.join();
    }
    if (cancelled_) {
      throw Cancelled();
    }
  }

 private:
  int threads_;
  Priority& priority_;
  const std::atomic<bool>& cancelled_;
};

BackgroundWork::BackgroundWork(int threads, std::function<void(ops::Workers& workers)> work)
    : priority_(std::make_unique<Priority>(threads)), thread_([this, threads, work = std::move(work)] {
        priority_->enter(0);
        ThreadWorkers workers(threads, *priority_, cancelled_);
        try {
          work(workers);
          done_ = true;
        } catch (const Cancelled&) {
          // Nobody wants it any more.
        }
        priority_->leave(0);
      }) {}

BackgroundWork::~BackgroundWork() {
  cancelled_ = true;
  priority_->raise();
  if (thread_.joinable()) {
    thread_.join();
  }
}

bool BackgroundWork::wait(const std::atomic<bool>* stop) {
  while (!done_ && (stop == nullptr || !*stop)) {
    priority_->raise();  // each time: a thread may have entered just now
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return done_;
}

}  // namespace xrun::runtime
