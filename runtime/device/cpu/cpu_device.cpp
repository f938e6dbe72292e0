// Tests: tests/runtime/executor/executor_test.cpp
#include "runtime/device/cpu/cpu_device.h"

#define TBB_PREVIEW_GLOBAL_CONTROL 1
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <system_error>
#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/task_scheduler_observer.h>
#include <thread>
#include <utility>

#include "graph/base/check.h"
#include "ops/compute_modes.h"
#include "runtime/device/cpu/cpu_backend.h"
#include "runtime/device/cpu/task_streams.h"
#include "runtime/device/host_memory.h"

namespace xrun::runtime {
namespace {

// Every thread that enters an arena gets the floating-point modes and the processors of the arena's device before its
// first task. When it leaves, it gets the processors of the thread that created the device.
class WorkerObserver final : public tbb::task_scheduler_observer {
 public:
  WorkerObserver(tbb::task_arena& arena, std::vector<int> cpus)
      : tbb::task_scheduler_observer(arena), cpus_(std::move(cpus)) {
    if (!cpus_.empty()) {
      elsewhere_ = thread_cpus();
    }
    observe(true);
  }
  ~WorkerObserver() override { observe(false); }

  void on_scheduler_entry(bool /*is_worker*/) override {
    ops::enter_compute_modes();
    XRUN_CHECK(ops::has_compute_modes(), "a worker without the floating-point modes");
    bind_thread(cpus_);
  }
  void on_scheduler_exit(bool /*is_worker*/) override { bind_thread(elsewhere_); }

 private:
  std::vector<int> cpus_;
  std::vector<int> elsewhere_;  // processors for threads outside the arena; empty if no device is bound
};

class CpuMemory final : public DeviceMemory {
 public:
  explicit CpuMemory(HostMemory memory) : memory_(std::move(memory)) {}

  Bytes bytes() const override { return memory_.bytes(); }
  void read(Bytes offset, std::span<std::byte> out) const override {
    std::copy_n(memory_.at(offset), out.size(), out.data());
  }
  void write(Bytes offset, std::span<const std::byte> in) override {
    std::copy_n(in.data(), in.size(), memory_.at(offset));
  }
  void fill(Bytes offset, Bytes bytes, std::byte value) override { std::fill_n(memory_.at(offset), bytes, value); }
  void copy_from(const DeviceMemory& from, Bytes from_offset, Bytes offset, Bytes bytes, CopyDone done) override {
    std::copy_n(from.kernel_address(from_offset), bytes, memory_.at(offset));
    done.done(done.context, {});
  }
  std::byte* kernel_address(Bytes offset) const override { return memory_.at(offset); }
  std::byte* host_address(Bytes offset) const override { return memory_.at(offset); }

 private:
  HostMemory memory_;
};

class ArenaDevice final : public CpuDevice {
 public:
  ArenaDevice(int index, int threads, DeviceCpus cpus)
      : index_(index),
        threads_(threads),
        nodes_(std::move(cpus.nodes)),
        streams_(std::min(threads, static_cast<int>(kDeviceStreams))),
        arena_(threads, 0) {
    // The arena passes the floating-point modes of the thread that initialises it to its tasks.
    const ops::ComputeModes modes;
    arena_.initialize();
    observer_ = std::make_unique<WorkerObserver>(arena_, std::move(cpus.cpus));
  }
  // Waits for runners: the runner of the last task may still be searching for another task.
  ~ArenaDevice() override {
    while (!streams_.idle()) {
      std::this_thread::yield();
    }
  }

  int index() const override { return index_; }
  int count() const override { return threads_; }

  Result<std::unique_ptr<DeviceMemory>> map(Bytes bytes, Bytes behind) override {
    XRUN_ASSIGN(HostMemory memory, HostMemory::map(bytes, behind));
    prefer_nodes(memory.at(0), bytes, nodes_);
    return std::unique_ptr<DeviceMemory>(std::make_unique<CpuMemory>(std::move(memory)));
  }

  // Runs a task on each worker. REQUIRES: each task waits for the others, so that no worker runs two of them.
  void meet(const std::function<void()>& arrive) {
    for (int worker = 0; worker < threads_; ++worker) {
      arena_.enqueue(arrive);
    }
  }

  void start(DeviceStream stream, Task task) override {
    if (!streams_.push(stream, task)) {
      return;
    }
    try {
      arena_.enqueue([this] { run_tasks(); });
    } catch (...) {  // removes the queued tasks: no task may run after its caller got an exception
      for (auto taken = streams_.next(std::nullopt); taken;) {
        taken = streams_.next(taken);
      }
      throw;
    }
  }

  bool idle() const override { return streams_.idle(); }

  // Runs one loop for each worker; the loops take items from one counter. The number of a loop serves as worker number,
  // since the arena may have more slots than workers.
  void for_each(int64_t items, ops::ItemBody body) override {
    if (threads_ == 1 || items <= 1) {
      for (int64_t i = 0; i < items; ++i) {
        body(i, 0);
      }
      return;
    }
    std::atomic<int64_t> next{0};
    const int loops = static_cast<int>(std::min<int64_t>(threads_, items));
    tbb::parallel_for(
        tbb::blocked_range<int>(0, loops, 1),
        [&](const tbb::blocked_range<int>& range) {
          for (int worker = range.begin(); worker != range.end(); ++worker) {
            for (int64_t item = next.fetch_add(1, std::memory_order_relaxed); item < items;
                 item = next.fetch_add(1, std::memory_order_relaxed)) {
              body(item, worker);
            }
          }
        },
        tbb::simple_partitioner());
  }

 private:
  void run_tasks() {
    for (auto taken = streams_.next(std::nullopt); taken; taken = streams_.next(taken)) {
      taken->task.run(taken->task.context, taken->task.argument);
    }
  }

  int index_;
  int threads_;
  std::vector<int> nodes_;  // NUMA nodes from which memory is requested
  TaskStreams streams_;
  tbb::task_arena arena_;
  std::unique_ptr<WorkerObserver> observer_;  // after the arena: an observer initialises it
};

// The limit for the number of TBB workers in the process: the total over all device sets. If there were several limits,
// TBB would use the smallest, so all sets share this one.
class WorkerLimit {
 public:
  explicit WorkerLimit(int workers) : workers_(workers) { change(workers); }
  ~WorkerLimit() { change(-workers_); }
  int workers() const { return workers_; }
  WorkerLimit(const WorkerLimit&) = delete;
  WorkerLimit& operator=(const WorkerLimit&) = delete;

 private:
  static void change(int by) {
    static std::mutex mutex;
    static int all = 0;
    static std::unique_ptr<tbb::global_control> limit;
    const std::lock_guard lock(mutex);
    all += by;
    // Creates the new limit before the old one is destroyed: otherwise TBB would meanwhile use the number of cores as
    // the limit, and ignore requests of device sets that work at that moment.
    limit = all == 0 ? nullptr
                     : std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism,
                                                             static_cast<size_t>(all) + 1);
  }
  int workers_;
};

// A barrier for workers: each waits until all have arrived.
class Meeting {
 public:
  explicit Meeting(int wanted) : wanted_(wanted) {}

  void arrive() {
    std::unique_lock lock(mutex_);
    ++there_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return closed_ || there_ == wanted_; });
  }
  // Waits until all workers have arrived, or until the time limit; returns the number that have arrived.
  int wait(std::chrono::milliseconds end) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, end, [&] { return there_ == wanted_; });
    lock.unlock();
    return close();
  }
  // Releases the workers that have arrived, and returns their number.
  int close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
    return there_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int wanted_;
  int there_ = 0;
  bool closed_ = false;
};

// The number of threads that TBB may start for each worker. An arena that needs fewer workers than before reports that
// with a short delay. If another arena gets work in the meantime, TBB starts threads beyond the limit, at most as many
// more as the limit allows.
constexpr int kThreadsOfWorker = 2;

Error refused_threads(int got, int workers) {
  return {ErrorKind::kWorld,
          "XG0803",
          "the system lets this process start " + std::to_string(got) + " of the " +
              std::to_string(kThreadsOfWorker * workers) + " threads that the plan needs, two for each worker",
          "raise its limit (`ulimit -u`, `ulimit -v`, pids.max of the control group), or plan for fewer: --threads " +
              std::to_string(std::max(1, got / kThreadsOfWorker)),
          {}};
}

// Tests whether the system allows the number of threads that will be needed, by starting all of them at once. If TBB
// were refused a thread later, it would throw an exception that no code can catch.
Status try_threads(int workers) {
  const int wanted = kThreadsOfWorker * workers;
  Meeting meeting(wanted);
  std::vector<std::thread> threads;
  Status status;
  try {
    while (std::ssize(threads) < wanted) {
      threads.emplace_back([&] { meeting.arrive(); });
    }
  } catch (const std::system_error&) {
    status = refused_threads(static_cast<int>(threads.size()), workers);
  }
  meeting.close();
  for (std::thread& thread : threads) {
    thread.join();
  }
  return status;
}

class CpuDeviceSet final : public DeviceSet {
 public:
  CpuDeviceSet(std::span<const int> threads, std::span<const DeviceCpus> cpus, int first)
      : limit_(std::accumulate(threads.begin(), threads.end(), 0)) {
    XRUN_CHECK(cpus.empty() || cpus.size() == threads.size(), "processors are given for each device or for none");
    for (size_t d = 0; d < threads.size(); ++d) {
      XRUN_CHECK(threads[d] >= 1, "a device without workers");
      devices_.push_back(std::make_unique<ArenaDevice>(first + static_cast<int>(d), threads[d],
                                                       cpus.empty() ? DeviceCpus{} : cpus[d]));
    }
  }
  // The reserve threads meet in an arena of their own, and sleep after it is destroyed.
  Status start_workers() const {
    const int workers = limit_.workers();
    const WorkerLimit reserve_limit(workers * (kThreadsOfWorker - 1));
    tbb::task_arena reserve(reserve_limit.workers(), 0);
    const auto meeting = std::make_shared<Meeting>(kThreadsOfWorker * workers);
    const auto arrive = [meeting] { meeting->arrive(); };
    try {
      for (const auto& device : devices_) {
        static_cast<ArenaDevice&>(*device).meet(arrive);
      }
      for (int thread = 0; thread < reserve_limit.workers(); ++thread) {
        reserve.enqueue(arrive);
      }
    } catch (const std::exception&) {  // thrown by TBB if a thread was refused
      return refused_threads(meeting->wait(std::chrono::milliseconds(200)), workers);
    }
    const int there = meeting->wait(std::chrono::seconds(30));
    return there == kThreadsOfWorker * workers ? Status() : refused_threads(there, workers);
  }
  std::span<const std::unique_ptr<Device>> devices() const override { return devices_; }
  Result<std::unique_ptr<HostArena>> map_host(Bytes bytes) const override { return map_pageable(bytes); }
  Result<std::unique_ptr<Backend>> bind(const Module& module, const planner::Program& program,
                                        const BoundMemory& memory, const BackendOptions& options) const override {
    return make_cpu_backend(module, program, memory, *this, options);
  }

 private:
  WorkerLimit limit_;
  std::vector<std::unique_ptr<Device>> devices_;
};

}  // namespace

std::unique_ptr<DeviceSet> make_cpu_devices(std::span<const int> threads, std::span<const DeviceCpus> cpus, int first) {
  return std::make_unique<CpuDeviceSet>(threads, cpus, first);
}

Result<std::unique_ptr<DeviceSet>> start_cpu_devices(std::span<const int> threads, std::span<const DeviceCpus> cpus,
                                                     int first) {
  XRUN_TRY(try_threads(std::accumulate(threads.begin(), threads.end(), 0)));
  auto devices = std::make_unique<CpuDeviceSet>(threads, cpus, first);
  XRUN_TRY(devices->start_workers());
  return std::unique_ptr<DeviceSet>(std::move(devices));
}

}  // namespace xrun::runtime
