#include "runtime/background_work.h"

#include <chrono>
#include <cstdint>
#include <sched.h>
#include <system_error>
#include <utility>
#include <vector>

#include "ops/compute_modes.h"

namespace xrun::runtime {
namespace {

// Of the calling thread. Where the system refuses it, the work has the priority of the steps.
void set_policy(int policy) {
  const sched_param none{};
  sched_setscheduler(0, policy, &none);
}

// Threads for the items of one call, which take longer than it takes to start them.
class ThreadWorkers final : public ops::Workers {
 public:
  ThreadWorkers(int threads, const std::atomic<bool>& cancelled, const std::atomic<bool>& waited_for)
      : threads_(threads), cancelled_(cancelled), waited_for_(waited_for) {}

  int count() const override { return threads_; }

  void for_each(int64_t items, ops::ItemBody body) override {
    std::atomic<int64_t> next = 0;
    const auto take_items = [&](int worker) {
      const ops::ComputeModes modes;
      bool idle = !waited_for_;  // a call that is waited for does not fall back behind others
      if (idle) {
        set_policy(SCHED_IDLE);
      }
      for (int64_t item = next++; item < items && !cancelled_; item = next++) {
        if (idle && waited_for_) {
          set_policy(SCHED_OTHER);
          idle = false;
        }
        body(item, worker);
      }
    };
    std::vector<std::thread> others;
    try {
      for (int worker = 1; worker < threads_ && worker < items; ++worker) {
        others.emplace_back(take_items, worker);
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
  const std::atomic<bool>& waited_for_;
};

}  // namespace

BackgroundWork::BackgroundWork(int threads, std::function<void(ops::Workers& workers)> work)
    : thread_([this, threads, work = std::move(work)] {
        ThreadWorkers workers(threads, cancelled_, waited_for_);
        work(workers);
        done_ = true;
      }) {}

BackgroundWork::~BackgroundWork() {
  cancelled_ = true;
  if (thread_.joinable()) {
    thread_.join();
  }
}

bool BackgroundWork::wait(const std::atomic<bool>* stop) {
  waited_for_ = true;
  while (!done_ && (stop == nullptr || !*stop)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return done_;
}

}  // namespace xrun::runtime
