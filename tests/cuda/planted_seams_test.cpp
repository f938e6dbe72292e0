// Faults that are planted between the devices of a program and its executor, loader and checkpoints: work that counts
// as ended too early, or that nothing waits for. Each is found with its place, with every seed.
#include <latch>

#include "runtime/device/backend.h"
#include "runtime/device/cuda/cuda_devices.h"
#include "tests/cuda/planted.h"

namespace xrun::cuda {
namespace {

using fake::FaultKind;
using runtime::DeviceStream;

// GPUs without kernels.
class Gpus final : public CudaDevices {
 public:
  explicit Gpus(const DriverTable& driver) : CudaDevices(must(open_devices(driver, std::vector<int>{0, 1}))) {}
  Result<std::unique_ptr<runtime::Backend>> bind(const Module&, const planner::Program&, const runtime::BoundMemory&,
                                                 const runtime::BackendOptions&) const override {
    return Error{ErrorKind::kUsage, "", "there are no kernels"};
  }
};

// Two GPUs with an arena each, and the arena of the host. The test queues work in their streams without waiting.
struct TwoGpus {
  explicit TwoGpus(uint64_t seed) : driver({.gpus = 2, .seed = seed}) {
    must(start_driver(driver.table()));
    devices = std::make_unique<Gpus>(driver.table());
    host = must(devices->map_host(kBytes));
    driver.name(static_cast<const void*>(host->at(0)), "the host's arena");
    for (int device = 0; device < 2; ++device) {
      const std::string number = std::to_string(device);
      arenas[static_cast<size_t>(device)] = must(devices->device(device).map(kBytes, 0));
      driver.name(at(device), "arena " + number);
      driver.name(compute(device).handle(), "computations " + number);
      driver.name(exchanges(device).handle(), "exchanges " + number);
    }
  }
  Stream& compute(int device) const { return devices->cuda(device).worker(DeviceStream::kCompute).stream(); }
  Stream& exchanges(int device) const { return devices->cuda(device).worker(DeviceStream::kExchanges).stream(); }
  CUdeviceptr at(int device) const {
    return reinterpret_cast<CUdeviceptr>(arenas[static_cast<size_t>(device)]->kernel_address(0));
  }
  std::span<std::byte> batch() const { return {host->at(0), static_cast<size_t>(kBytes)}; }
  // Queues work of a device with its context.
  template <class Work>
  void queue(int device, const Work& work) const {
    EXPECT_TRUE(devices->cuda(device).context().make_current().ok());
    EXPECT_TRUE(work().ok());
  }
  void compute_value(int device) const {
    queue(device, [&] { return compute(device).fill(at(device), std::byte{1}, kBytes); });
  }
  void use_value(int device) const {
    queue(device, [&] { return compute(device).copy(at(device), at(device) + kBytes / 2, kBytes / 2); });
  }
  // Device 1 receives the first half of the arena of device 0 in its second half.
  void exchange() const {
    queue(1, [&] {
      return exchanges(1).copy_from_peer(at(1) + kBytes / 2, devices->cuda(0).context(), at(0), kBytes / 2);
    });
  }
  // Waits for all work, destroys all objects in the right order, and returns the faults.
  std::vector<fake::Fault> finish() {
    for (int device = 0; device < 2; ++device) {
      queue(device, [&] { return compute(device).synchronise(); });
      queue(device, [&] { return exchanges(device).synchronise(); });
    }
    arenas = {};
    host.reset();
    devices.reset();
    return driver.faults();
  }

  fake::FakeDriver driver;
  std::unique_ptr<Gpus> devices;
  std::unique_ptr<runtime::HostArena> host;
  std::array<std::unique_ptr<runtime::DeviceMemory>, 2> arenas;
};

struct PlantedSeam {
  const char* name;
  FaultKind kind;
  std::vector<std::string> parts;  // parts of the line of the fault
  void (*run)(TwoGpus& on);
};

// Reports the end of a computation before it is queued, and queues the exchange that waits for this end.
void end_too_early(TwoGpus& on) {
  struct Early {
    TwoGpus& on;
    std::latch queued{1};
    std::latch ended{1};
  } early{.on = on};
  const auto task = [](void* context, int32_t) {
    auto& all = *static_cast<Early*>(context);
    const auto done = [](void* of, Status) { static_cast<Early*>(of)->ended.count_down(); };
    all.on.devices->cuda(0).worker(DeviceStream::kCompute).when_ended({done, context});
    EXPECT_TRUE(all.on.compute(0).fill(all.on.at(0), std::byte{1}, kBytes).ok());
    all.queued.count_down();
  };
  on.devices->device(0).start(DeviceStream::kCompute, {task, &early, 0});
  early.ended.wait();
  early.queued.wait();
  on.exchange();
}

std::vector<PlantedSeam> planted_seams() {
  constexpr auto kUnordered = FaultKind::kUnordered;
  return {
      {"an exchange does not wait for the value that it sends",
       kUnordered,
       {"arena 0 + 0", "cuMemcpyPeerAsync", "exchanges 1", "cuMemsetD8Async", "computations 0"},
       [](TwoGpus& on) {
         on.compute_value(0);
         on.exchange();
       }},
      {"an exchange counts as ended when it is queued",
       kUnordered,
       {"arena 1 + 128", "cuMemcpyPeerAsync", "exchanges 1", "cuMemcpyDtoDAsync_v2", "computations 1"},
       [](TwoGpus& on) {
         on.exchange();
         on.use_value(1);
       }},
      {"a value is overwritten while it may be sent",
       kUnordered,
       {"arena 0 + 0", "cuMemcpyPeerAsync", "exchanges 1", "cuMemsetD8Async", "computations 0"},
       [](TwoGpus& on) {
         on.exchange();
         on.compute_value(0);
       }},
      {"a received value overwrites one that is still used",
       kUnordered,
       {"arena 1 + 128", "cuMemcpyPeerAsync", "exchanges 1", "cuMemcpyDtoDAsync_v2", "computations 1"},
       [](TwoGpus& on) {
         on.use_value(1);
         on.exchange();
       }},
      {"a computation counts as ended before it is queued",
       kUnordered,
       {"arena 0 + 0", "cuMemcpyPeerAsync", "exchanges 1", "cuMemsetD8Async", "computations 0"},
       end_too_early},
      {"a step ends without a wait for its exchanges",
       kUnordered,
       {"arena 1 + 128", "cuMemcpyDtoH_v2", "cuMemcpyPeerAsync in exchanges 1"},
       [](TwoGpus& on) {
         on.exchange();
         EXPECT_TRUE(on.compute(1).synchronise().ok());
         std::vector<std::byte> values(static_cast<size_t>(kBytes));
         on.arenas[1]->read(0, values);
       }},
      {"a checkpoint reads weights while they are updated",
       kUnordered,
       {"arena 0 + 0", "cuMemcpyDtoH_v2", "cuMemsetD8Async in computations 0"},
       [](TwoGpus& on) {
         on.compute_value(0);
         std::vector<std::byte> values(static_cast<size_t>(kBytes));
         on.arenas[0]->read(0, values);
       }},
      {"the loader overwrites a batch while it may be copied",
       FaultKind::kHostAccess,
       {"the host, the host's arena + 0", "cuMemcpyHtoDAsync_v2 in computations 0"},
       [](TwoGpus& on) {
         on.queue(0, [&] { return on.compute(0).copy_in(on.at(0), on.batch()); });
         *static_cast<volatile std::byte*>(on.host->at(0)) = std::byte{1};
       }},
      {"losses are read before they are copied",
       FaultKind::kHostAccess,
       {"the host, the host's arena + 0", "cuMemcpyDtoHAsync_v2 in computations 0"},
       [](TwoGpus& on) {
         on.queue(0, [&] { return on.compute(0).copy_out(on.batch(), on.at(0)); });
         static_cast<void>(*static_cast<volatile std::byte*>(on.host->at(0)));
       }},
      {"an arena is freed while another GPU may read it",
       FaultKind::kFreedInUse,
       {"cuMemFree_v2, arena 0", "cuMemcpyPeerAsync in exchanges 1"},
       [](TwoGpus& on) {
         on.exchange();
         on.arenas[0].reset();
       }},
  };
}

TEST(PlantedSeams, WorkThatNothingWaitsForIsFoundWithEverySeed) {
  for (const PlantedSeam& planted : planted_seams()) {
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      SCOPED_TRACE(std::string(planted.name) + ", seed " + std::to_string(seed));
      TwoGpus on(seed);
      planted.run(on);
      expect_fault(on.finish(), planted.kind, planted.parts);
    }
  }
}

// If the host waits, this work has no faults.
TEST(PlantedSeams, WorkThatTheHostWaitsForHasNoFaults) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    TwoGpus on(seed);
    on.queue(0, [&] { return on.compute(0).copy_in(on.at(0), on.batch()); });
    EXPECT_TRUE(on.compute(0).synchronise().ok());
    on.compute_value(0);
    EXPECT_TRUE(on.compute(0).synchronise().ok());
    on.exchange();
    EXPECT_TRUE(on.exchanges(1).synchronise().ok());
    on.use_value(1);
    EXPECT_TRUE(on.compute(1).synchronise().ok());
    std::vector<std::byte> values(static_cast<size_t>(kBytes));
    on.arenas[1]->read(0, values);
    EXPECT_EQ(values[0], std::byte{1});
    EXPECT_EQ(print(on.finish()), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace xrun::cuda
