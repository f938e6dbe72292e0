// Tests: tests/runtime/train/knn/knn_graphs_test.cpp
#include "runtime/device/background_work.h"

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

// Sets the scheduling policy of a thread; id 0 is the calling thread. If the system refuses, the work competes with the
// steps at normal priority.
void set_policy(pid_t id, int policy) {
  const sched_param none{};
  sched_setscheduler(id, policy, &none);
}

// Thrown by a call of for_each that has skipped items, so that the work ends: later code would read missing results. No
// code between `for_each` and the first function of the thread catches it, so its type is private to this file.
struct Cancelled {};

}  // namespace

// Starts new threads for the items of each call. An item takes much longer than the start of a thread.
class BackgroundWork::ThreadWorkers final : public ops::Workers {
 public:
  explicit ThreadWorkers(BackgroundWork& work) : work_(work) { enter(0); }
  ~ThreadWorkers() override { leave(0); }

  int count() const override { return work_.threads_; }

  void for_each(int64_t items, ops::ItemBody body) override {
    std::atomic<int64_t> next = 0;
    const auto take_items = [&](int worker) {
      const ops::ComputeModes modes;
      for (int64_t item = next++; item < items && !work_.cancelled_; item = next++) {
        body(item, worker);
      }
    };
    // Threads start with the priority of the thread that starts them. At idle priority they might get no processor time
    // to publish their ids, and without the ids no thread could raise their priority.
    set_policy(0, SCHED_OTHER);
    std::vector<std::thread> others;
    try {
      for (int worker = 1; worker < work_.threads_ && worker < items; ++worker) {
        others.emplace_back([&, worker] {
          enter(worker);
          take_items(worker);
          leave(worker);
        });
      }
    } catch (const std::system_error&) {
      // If the system refuses a thread, the threads that have started do all items.
    }
    enter(0);
    take_items(0);
    for (std::thread& other : others) {
      other.join();
    }
    if (work_.cancelled_) {
      throw Cancelled();
    }
  }

 private:
  // Gives the calling thread idle priority, unless another thread already waits for the work. If a thread begins to
  // wait at this moment, it raises the priority again, since the id of the calling thread is published first.
  void enter(int worker) {
    work_.ids_[worker] = ::gettid();
    if (!work_.waited_for_) {
      set_policy(0, SCHED_IDLE);
    }
  }

  // Restores normal priority, since the thread that started this one waits until this one has ended.
  void leave(int worker) {
    set_policy(0, SCHED_OTHER);
    work_.ids_[worker] = 0;
  }

  BackgroundWork& work_;
};

BackgroundWork::BackgroundWork(int threads, std::function<void(ops::Workers& workers)> work)
    : threads_(threads),
      ids_(std::make_unique<std::atomic<pid_t>[]>(static_cast<size_t>(threads))),
      thread_([this, work = std::move(work)] {
        try {
          ThreadWorkers workers(*this);
          work(workers);
        } catch (const Cancelled&) {
          // The work was cancelled: its result is not wanted any more.
        }
        done_ = true;
      }) {}

BackgroundWork::~BackgroundWork() {
  cancelled_ = true;
  wait();
  thread_.join();
}

void BackgroundWork::hurry() {
  waited_for_ = true;
  raise();
}

bool BackgroundWork::wait(const std::atomic<bool>* stop) {
  return wait_unless([stop] { return stop != nullptr && *stop; });
}

bool BackgroundWork::wait_unless(const std::function<bool()>& ends) {
  waited_for_ = true;
  while (!done_ && !ends()) {
    raise();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return done_;
}

void BackgroundWork::raise() const {
  for (int worker = 0; worker < threads_; ++worker) {
    if (const pid_t id = ids_[worker]; id != 0) {
      set_policy(id, SCHED_OTHER);
    }
  }
}

void run_at_normal_priority(const std::function<void()>& body, const std::atomic<bool>& stays) {
  if (sched_getscheduler(0) != SCHED_IDLE) {
    body();
    return;
  }
  set_policy(0, SCHED_OTHER);
  body();
  set_policy(0, SCHED_IDLE);
  if (stays) {
    set_policy(0, SCHED_OTHER);
  }
}

}  // namespace xrun::runtime
