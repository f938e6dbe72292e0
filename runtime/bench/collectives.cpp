// Each device maps one block of memory for its arrays, and fills its input with whole numbers. A round runs the
// all-gather and then the reduce-scatter: all ranks synchronise, start their exchanges on the communicator that
// training uses, and wait until the exchanges complete; for the reduce-scatter each device then sums the parts in its
// memory. The first round is a warm-up. At the end each device compares its results with numbers that it computes
// without exchanges.
// Tests: tests/runtime/cli/commands/bench_test.cpp
#include "runtime/bench/collectives.h"

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "graph/base/check.h"
#include "runtime/comm/local/local_communicator.h"
#include "runtime/device/cpu/cpu_device.h"

namespace xrun::runtime {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Bytes kPage = 4 * kKiB;

enum Group { kAllGather, kReduceScatter };

// Offsets of a device's arrays: the input of both collectives, the result of the all-gather, the received parts before
// the sum, and the sums.
struct Places {
  Bytes array = 0;  // size of an array: one share for each device
  Bytes share = 0;
  Bytes gathered() const { return array; }
  Bytes parts() const { return 2 * array; }
  Bytes sums() const { return 3 * array; }
  Bytes all() const { return 3 * array + share; }
};

// Counts the exchanges that have completed, and keeps the first error.
class Completions {
 public:
  Completion one() { return {.done = &done, .context = this}; }
  Status wait(int calls) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return calls_ >= calls; });
    calls_ -= calls;
    return status_;
  }

 private:
  static void done(void* context, int32_t /*argument*/, Status status, Seconds /*moving*/) {
    auto& all = *static_cast<Completions*>(context);
    const std::lock_guard lock(all.mutex_);
    ++all.calls_;
    if (all.status_.ok()) {
      all.status_ = std::move(status);
    }
    all.changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int calls_ = 0;
  Status status_;
};

// Adds the exchanges of a device for both collectives. Device d owns share d of the gathered array, and gets the sum of
// share d over all devices.
void add_exchanges(const CollectiveCase& one, const Places& at, int device, DeviceMemory& memory,
                   std::vector<Exchange>& exchanges) {
  Exchange gather{.group = kAllGather, .device = device};
  Exchange scatter{.group = kReduceScatter, .device = device};
  for (int peer = 0; peer < one.devices; ++peer) {
    const auto block = [&](Bytes offset) {
      return Block{.peer = peer, .memory = &memory, .offset = offset, .bytes = at.share};
    };
    gather.sends.push_back(block(device * at.share));
    gather.sends.back().source = device * at.share;
    gather.receives.push_back(block(at.gathered() + peer * at.share));
    gather.receives.back().source = peer * at.share;
    scatter.sends.push_back(block(peer * at.share));
    scatter.receives.push_back(block(at.parts() + peer * at.share));
  }
  exchanges.push_back(std::move(gather));
  exchanges.push_back(std::move(scatter));
}

// Sums the parts that all devices have contributed to a device's share, in the order of the devices.
void sum_parts(const CollectiveCase& one, const Places& at, Device& device, const DeviceMemory& memory) {
  constexpr int64_t kRun = 4096;
  const auto* const parts = reinterpret_cast<const float*>(memory.kernel_address(at.parts()));
  auto* const sums = reinterpret_cast<float*>(memory.kernel_address(at.sums()));
  const int64_t size = at.share / static_cast<Bytes>(sizeof(float));
  ops::Workers& workers = static_cast<CpuDevice&>(device);
  workers.for_each((size + kRun - 1) / kRun, [&](int64_t run, int) {
    const int64_t begin = run * kRun;
    const int64_t end = std::min(size, begin + kRun);
    for (int64_t i = begin; i < end; ++i) {
      sums[i] = parts[i] + parts[size + i];
    }
    for (int part = 2; part < one.devices; ++part) {
      for (int64_t i = begin; i < end; ++i) {
        sums[i] += parts[part * size + i];
      }
    }
  });
}

// Element i of a device's array. It is a small whole number, so that sums are exact.
float value_at(int device, int64_t i) { return static_cast<float>((i + device) % 64); }

void check_values(const CollectiveCase& one, const Places& at, int device, const DeviceMemory& memory) {
  const auto* const sums = reinterpret_cast<const float*>(memory.kernel_address(at.sums()));
  const auto* const gathered = reinterpret_cast<const float*>(memory.kernel_address(at.gathered()));
  const int64_t size = at.share / static_cast<Bytes>(sizeof(float));
  bool right = true;
  for (int64_t i = 0; i < size; ++i) {
    float want = 0;
    for (int other = 0; other < one.devices; ++other) {
      want += value_at(other, device * size + i);
      right = right && gathered[other * size + i] == value_at(other, other * size + i);
    }
    right = right && sums[i] == want;
  }
  XRUN_CHECK(right, "a collective has moved or added wrong values");
}

}  // namespace

Result<CollectiveFigures> measure_collectives(const CollectiveCase& one, const MakeCommunicator& make) {
  Places at{.share = one.bytes / one.devices / kPage * kPage};
  at.array = at.share * one.devices;
  XRUN_ASSIGN(const auto devices,
              start_cpu_devices(std::vector<int>(static_cast<size_t>(one.own), one.threads), {}, one.first));
  std::vector<std::unique_ptr<DeviceMemory>> memories;
  std::vector<Exchange> exchanges;
  for (const auto& device : devices->devices()) {
    XRUN_ASSIGN(auto memory, device->map(at.all()));
    memory->fill(0, at.all(), std::byte{0});  // maps the pages before the measurement
    add_exchanges(one, at, device->index(), *memory, exchanges);
    memories.push_back(std::move(memory));
  }
  const auto memory_of = [&](const Device& device) -> DeviceMemory& {
    return *memories[static_cast<size_t>(device.index() - one.first)];
  };
  XRUN_TRY(run_on_each(*devices, [&](Device& device) -> Status {
    auto* const values = reinterpret_cast<float*>(memory_of(device).kernel_address(0));
    for (int64_t i = 0; i < at.array / static_cast<Bytes>(sizeof(float)); ++i) {
      values[i] = value_at(device.index(), i);
    }
    return {};
  }));
  const auto communicator = make ? make(*devices, exchanges) : std::make_unique<LocalCommunicator>(*devices, exchanges);
  Completions completions;
  Seconds moved = 0;  // the exchanges of the last collective without its sums
  const auto run = [&](Group group) -> Result<Seconds> {
    XRUN_TRY(communicator->agree({}).status);  // lets all ranks begin together
    const auto begin = Clock::now();
    for (size_t i = 0; i < exchanges.size(); ++i) {
      if (exchanges[i].group == group) {
        communicator->post(static_cast<int>(i), completions.one(), completions.one());
      }
    }
    XRUN_TRY(completions.wait(2 * one.own));
    moved = std::chrono::duration<double>(Clock::now() - begin).count();
    if (group == kReduceScatter) {
      XRUN_TRY(run_on_each(*devices, [&](Device& device) -> Status {
        sum_parts(one, at, device, memory_of(device));
        return {};
      }));
    }
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  CollectiveFigures figures;
  for (int round = 0; round <= one.rounds; ++round) {  // round 0 is a warm-up
    XRUN_ASSIGN(const Seconds gather, run(kAllGather));
    XRUN_ASSIGN(const Seconds scatter, run(kReduceScatter));
    if (round > 0) {
      figures.all_gather.push_back(gather);
      figures.reduce_scatter.push_back(scatter);
      figures.scattered.push_back(moved);
    }
  }
  XRUN_TRY(run_on_each(*devices, [&](Device& device) -> Status {
    check_values(one, at, device.index(), memory_of(device));
    return {};
  }));
  XRUN_TRY(communicator->agree({}).status);  // waits for all ranks, since they read this rank's memory until then
  return figures;
}

}  // namespace xrun::runtime
