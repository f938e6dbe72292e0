#include "runtime/background_work.h"

#include <chrono>
#include <cstdint>
#include <sched.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "ops/compute_modes.h"

namespace xrun::runtime {
namespace {

void set_policy(pid_t thread, int policy) {
  const sched_param none{};
  sched_setscheduler(thread, policy, &none);
}

// Threads for the items of one call, which take longer than it takes to start them.
class ThreadWorkers final : public ops::Workers {
 public:
  ThreadWorkers(int threads, const std::atomic<bool>& cancelled, IdleThreads& idle)
      : threads_(threads), cancelled_(cancelled), idle_(idle) {}

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
        others.emplace_back([&take_items, this, worker] {
          idle_.enter();
          take_items(worker);
          idle_.leave();
        });
      }
    } catch (const std::system_error&) {
      // Those that have started do the rest.
    }
    take_items(0);
    for (std::thread& other : others) {
      other.join();
    }
  }

 private:
  int threads_;
  const std::atomic<bool>& cancelled_;
  IdleThreads& idle_;
};

}  // namespace

// A thread holds the lock at the priority of others alone, so that `raise` never waits for one of idle priority.
void IdleThreads::enter() {
  {
    const std::lock_guard lock(mutex_);
    threads_.push_back(gettid());
  }
  if (!raised_) {
    set_policy(gettid(), SCHED_IDLE);
  }
}

void IdleThreads::leave() {
  set_policy(gettid(), SCHED_OTHER);
  const std::lock_guard lock(mutex_);
  std::erase(threads_, gettid());
}

void IdleThreads::raise() {
  raised_ = true;
  const std::lock_guard lock(mutex_);
  for (const pid_t thread : threads_) {
    set_policy(thread, SCHED_OTHER);
  }
}

BackgroundWork::BackgroundWork(int threads, std::function<void(ops::Workers& workers)> work)
    : thread_([this, threads, work = std::move(work)] {
        idle_.enter();
        ThreadWorkers workers(threads, cancelled_, idle_);
        work(workers);
        idle_.leave();
        done_ = true;
      }) {}

BackgroundWork::~BackgroundWork() {
  cancelled_ = true;
  if (thread_.joinable()) {
    thread_.join();
  }
}

bool BackgroundWork::wait(const std::atomic<bool>* stop) {
  while (!done_ && (stop == nullptr || !*stop)) {
    idle_.raise();  // each time: a thread may have entered just before the first
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return done_;
}

}  // namespace xrun::runtime
