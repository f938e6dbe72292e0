// Every thread makes its operands, calls once to warm up, and then repeats: `before`, meet the others, call. They meet
// by spinning, because a thread that sleeps wakes after tens of microseconds, when a short call of the others has ended
// already. After some spins a thread yields, since other programs may have the core of the thread that it waits for.
#include "ops/facts/concurrent_calls.h"

#include <algorithm>
#include <atomic>
#include <emmintrin.h>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "graph/os/processor_time.h"

namespace xrun::ops {
namespace {

constexpr int kCalls = 7;         // number of timed calls of a thread, after a first call to warm up
constexpr Seconds kEnough = 0.1;  // no more calls are made when the calls of the first thread have taken this long

template <typename Condition>
void wait_until(const Condition& is_met) {
  constexpr int kSpins = 1'000;
  for (int spins = 0; !is_met(); ++spins) {
    if (spins < kSpins) {
      _mm_pause();
    } else {
      std::this_thread::yield();
    }
  }
}

struct ThreadCalls {
  std::vector<Seconds> times;
  Status status;
};

// The calls that all threads make. Thread 0 sets the number of calls.
class Rounds {
 public:
  // Sets the number of threads, for which they wait before their first call.
  void start(int members) { members_.store(members, std::memory_order_release); }

  void run(int thread, const std::function<Result<TimedCall>()>& make, ThreadCalls& made) {
    Result<TimedCall> call = make();
    made.status = call.ok() ? call.value().run() : Status(call.error());
    Seconds sum = 0;
    for (int round = 0;; ++round) {
      if (made.status.ok() && call.value().before) {
        call.value().before();
      }
      if (!made.status.ok()) {
        end_before(round);
      }
      meet(round);
      if (round >= calls_.load(std::memory_order_acquire)) {
        return;
      }
      const Seconds start = thread_processor_time();
      made.status = call.value().run();
      made.times.push_back(thread_processor_time() - start);
      sum += made.times.back();
      if (thread == 0 && sum >= kEnough) {
        end_before(round + 1);
      }
    }
  }

 private:
  // Ends the calls before a round that the calling thread has not met the others for. Other threads may still read the
  // number for the round before, and go on in any case.
  void end_before(int round) {
    int calls = calls_.load(std::memory_order_relaxed);
    while (round < calls && !calls_.compare_exchange_weak(calls, round, std::memory_order_acq_rel)) {
    }
  }

  // Returns when all threads have called this function for a round.
  void meet(int round) {
    met_.fetch_add(1, std::memory_order_acq_rel);
    wait_until([&] {
      const int members = members_.load(std::memory_order_acquire);
      return members > 0 && met_.load(std::memory_order_acquire) >= members * (round + 1);
    });
  }

  std::atomic<int> members_{0};
  std::atomic<int> met_{0};  // calls of `meet` by all threads
  std::atomic<int> calls_{kCalls};
};

}  // namespace

Result<Seconds> time_calls(int threads, const std::function<Result<TimedCall>()>& make) {
  Rounds rounds;
  std::vector<ThreadCalls> made(static_cast<size_t>(std::max(1, threads)));
  std::vector<std::jthread> others;
  others.reserve(made.size());
  for (size_t i = 1; i < made.size(); ++i) {
    try {
      others.emplace_back([&rounds, &make, &mine = made[i], i] { rounds.run(static_cast<int>(i), make, mine); });
    } catch (const std::system_error&) {
      break;
    }
  }
  rounds.start(static_cast<int>(others.size()) + 1);
  rounds.run(0, make, made[0]);
  others.clear();
  std::vector<Seconds> times;
  for (const ThreadCalls& one : made) {
    XRUN_TRY(one.status);
    times.insert(times.end(), one.times.begin(), one.times.end());
  }
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::ranges::nth_element(times, middle);
  return *middle;
}

}  // namespace xrun::ops
