// CPU devices whose memory only their own tasks can touch (guarded_memory.h): a test double for a device with memory of
// its own. If other code dereferences an address of a device, the process ends.
#pragma once

#include <memory>

#include "runtime/device/cpu/cpu_backend.h"
#include "runtime/device/cpu/cpu_device.h"
#include "tests/support/guarded_memory.h"
#include "tests/support/late_backend.h"

namespace xrun::runtime::testing {

class GuardedDevice final : public CpuDevice {
 public:
  GuardedDevice(std::shared_ptr<Guard> guard, CpuDevice& device, LateWork& late)
      : guard_(std::move(guard)), device_(device), late_(late) {}

  int index() const override { return device_.index(); }
  int count() const override { return device_.count(); }
  void for_each(int64_t items, ops::ItemBody body) override { device_.for_each(items, body); }
  Result<std::unique_ptr<DeviceMemory>> map(Bytes bytes, Bytes behind) override {
    XRUN_CHECK(behind == 0, "a file cannot be mapped over both mappings of a guarded device");
    return std::unique_ptr<DeviceMemory>(std::make_unique<GuardedMemory>(guard_, bytes, late_, index()));
  }
  void start(DeviceStream stream, Task task) override {
    device_.start(stream, {&GuardedDevice::run, new Guarded{guard_, task}, 0});
  }

 private:
  // Shared ownership of the guard: the last task of a step may end after the set is destroyed.
  struct Guarded {
    std::shared_ptr<Guard> guard;
    Task task;
  };
  static void run(void* context, int32_t /*argument*/) {
    const std::unique_ptr<Guarded> guarded(static_cast<Guarded*>(context));
    guarded->guard->begin();
    guarded->task.run(guarded->task.context, guarded->task.argument);
    guarded->guard->end();
  }

  std::shared_ptr<Guard> guard_;
  CpuDevice& device_;
  LateWork& late_;
};

class GuardedDeviceSet final : public DeviceSet {
 public:
  // `seed` determines the order of copies.
  //   copies_inputs  only kCopy instructions of the program may read the arena of the host, as for GPUs; otherwise all
  //                  instructions may
  explicit GuardedDeviceSet(std::span<const int> threads, uint32_t seed = 0, bool copies_inputs = false)
      : host_guard_(copies_inputs ? std::make_shared<Guard>() : guard_),
        cpus_(make_cpu_devices(threads)),
        late_(std::make_unique<LateWork>(seed)) {
    for (const auto& device : cpus_->devices()) {
      devices_.push_back(std::make_unique<GuardedDevice>(guard_, static_cast<CpuDevice&>(*device), *late_));
    }
  }
  std::span<const std::unique_ptr<Device>> devices() const override { return devices_; }
  Result<std::unique_ptr<HostArena>> map_host(Bytes bytes) const override {
    return std::unique_ptr<HostArena>(std::make_unique<GuardedArena>(host_guard_, bytes));
  }
  Result<std::unique_ptr<Backend>> bind(const Module& module, const planner::Program& program,
                                        const BoundMemory& memory, const BackendOptions& options) const override {
    XRUN_ASSIGN(auto backend, make_cpu_backend(module, program, memory, *this, options));
    auto late = std::make_unique<LateBackend>(program, *late_, std::move(backend));
    if (host_guard_ != guard_) {
      late->open_for_copies(*host_guard_);
    }
    return std::unique_ptr<Backend>(std::move(late));
  }

  const std::shared_ptr<Guard>& guard() const { return guard_; }
  LateWork& late() const { return *late_; }

 private:
  std::shared_ptr<Guard> guard_ = std::make_shared<Guard>();
  std::shared_ptr<Guard> host_guard_;  // that of the arena of the host
  std::unique_ptr<DeviceSet> cpus_;
  std::unique_ptr<LateWork> late_;
  std::vector<std::unique_ptr<Device>> devices_;
};

}  // namespace xrun::runtime::testing
