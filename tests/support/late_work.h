// A thread that runs work of devices later than the call that queued it, in an order that a seed determines.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace xrun::runtime::testing {

// Work of one queue runs in the order in which it was queued. Threads: any.
class LateWork {
 public:
  // The kinds of work, in the order in which they are preferred if all work is as late as possible.
  enum class Kind : uint8_t { kQueues, kRuns, kCopies, kEnds };
  using Queue = std::pair<Kind, int>;

  // A third of the seeds run copies and report ends only when no other work can run; a third report them as soon as
  // possible; the others choose at random.
  explicit LateWork(uint32_t seed) : order_(seed % 3), random_(seed), thread_([this] { run(); }) {}
  // Runs all work.
  ~LateWork() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  LateWork(const LateWork&) = delete;
  LateWork& operator=(const LateWork&) = delete;

  void add(Queue queue, std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    queues_[queue].push_back(std::move(work));
    changed_.notify_all();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      std::deque<std::function<void()>>* queue = choose();
      if (queue == nullptr && ends_) {
        return;
      }
      if (queue == nullptr) {
        changed_.wait(lock);
        continue;
      }
      const std::function<void()> work = std::move(queue->front());
      queue->pop_front();
      lock.unlock();
      work();
      lock.lock();
    }
  }

  std::deque<std::function<void()>>* choose() {
    std::vector<std::pair<Kind, std::deque<std::function<void()>>*>> found;
    for (auto& [queue, items] : queues_) {
      if (!items.empty()) {
        found.emplace_back(queue.first, &items);
      }
    }
    if (found.empty()) {
      return nullptr;
    }
    std::ranges::shuffle(found, random_);
    const auto later = [](const auto& a, const auto& b) { return a.first < b.first; };
    return order_ == 0   ? std::ranges::min_element(found, later)->second
           : order_ == 1 ? std::ranges::max_element(found, later)->second
                         : found.front().second;
  }

  const uint32_t order_;
  std::mt19937 random_;  // only the thread uses it
  std::mutex mutex_;     // guards all members below
  std::condition_variable changed_;
  std::map<Queue, std::deque<std::function<void()>>> queues_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace xrun::runtime::testing
