// CPU devices whose memory only their own tasks can touch: a test double for a device with memory of its own. Each
// arena is one memfd mapped twice. The mapping that kernels get is closed (PROT_NONE) unless a task of a device runs;
// copies into and out of it use the other mapping, which is not handed out. Following an address of a device from
// anywhere else ends the process.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <sys/mman.h>
#include <unistd.h>

#include "graph/base/check.h"
#include "runtime/device/cpu/cpu_backend.h"
#include "runtime/device/cpu/cpu_device.h"

namespace xrun::runtime::testing {

// The mappings of a set of devices. All are open while any task of the set runs, because an exchange reads the memory
// of two devices. Threads: any.
class Guard {
 public:
  void add(std::byte* base, size_t bytes) {
    const std::lock_guard lock(mutex_);
    ranges_.insert({base, bytes});
    protect(base, bytes, running_ > 0);
  }
  void remove(std::byte* base, size_t bytes) {
    const std::lock_guard lock(mutex_);
    ranges_.erase({base, bytes});
  }
  void begin() { count(1); }
  void end() { count(-1); }

 private:
  void count(int change) {
    const std::lock_guard lock(mutex_);
    const bool was_open = running_ > 0;
    running_ += change;
    if (was_open != (running_ > 0)) {
      for (const auto& [base, bytes] : ranges_) {
        protect(base, bytes, running_ > 0);
      }
    }
  }
  static void protect(std::byte* base, size_t bytes, bool open) {
    XRUN_CHECK(mprotect(base, bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE) == 0,
               "the guard cannot protect memory");
  }

  std::mutex mutex_;
  int running_ = 0;
  std::set<std::pair<std::byte*, size_t>> ranges_;
};

class GuardedMemory final : public DeviceMemory {
 public:
  GuardedMemory(std::shared_ptr<Guard> guard, Bytes bytes)
      : guard_(std::move(guard)), bytes_(bytes), size_(static_cast<size_t>(bytes)) {
    if (bytes == 0) {
      return;
    }
    const int file = memfd_create("guarded", 0);
    XRUN_CHECK(file >= 0 && ftruncate(file, bytes) == 0, "no memory for a guarded device");
    for (std::byte** base : {&kernels_, &copies_}) {
      void* mapped = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
      XRUN_CHECK(mapped != MAP_FAILED, "no mapping for a guarded device");
      *base = static_cast<std::byte*>(mapped);
    }
    close(file);
    guard_->add(kernels_, size_);
  }
  ~GuardedMemory() override {
    if (bytes_ > 0) {
      guard_->remove(kernels_, size_);
      munmap(kernels_, size_);
      munmap(copies_, size_);
    }
  }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  Bytes bytes() const override { return bytes_; }
  void read(Bytes offset, std::span<std::byte> out) const override {
    std::copy_n(copies_ + offset, out.size(), out.data());
  }
  void write(Bytes offset, std::span<const std::byte> in) override {
    std::copy_n(in.data(), in.size(), copies_ + offset);
  }
  void fill(Bytes offset, Bytes bytes, std::byte value) override { std::fill_n(copies_ + offset, bytes, value); }
  void copy_from(const DeviceMemory& from, Bytes from_offset, Bytes offset, Bytes bytes) override {
    std::copy_n(from.kernel_address(from_offset), bytes, kernels_ + offset);
  }
  std::byte* kernel_address(Bytes offset) const override { return kernels_ + offset; }

 private:
  std::shared_ptr<Guard> guard_;
  Bytes bytes_;
  size_t size_;
  std::byte* kernels_ = nullptr;
  std::byte* copies_ = nullptr;
};

class GuardedDevice final : public CpuDevice {
 public:
  GuardedDevice(std::shared_ptr<Guard> guard, CpuDevice& device) : guard_(std::move(guard)), device_(device) {}

  int index() const override { return device_.index(); }
  int count() const override { return device_.count(); }
  void for_each(int64_t items, ops::ItemBody body) override { device_.for_each(items, body); }
  Result<std::unique_ptr<DeviceMemory>> map(Bytes bytes, Bytes behind) override {
    XRUN_CHECK(behind == 0, "a file cannot be mapped over both mappings of a guarded device");
    return std::unique_ptr<DeviceMemory>(std::make_unique<GuardedMemory>(guard_, bytes));
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
};

class GuardedDeviceSet final : public DeviceSet {
 public:
  explicit GuardedDeviceSet(std::span<const int> threads) : cpus_(make_cpu_devices(threads)) {
    for (const auto& device : cpus_->devices()) {
      devices_.push_back(std::make_unique<GuardedDevice>(guard_, static_cast<CpuDevice&>(*device)));
    }
  }
  std::span<const std::unique_ptr<Device>> devices() const override { return devices_; }
  Result<std::unique_ptr<Backend>> bind(const Module& module, const planner::Program& program,
                                        const BoundMemory& memory, const BackendOptions& options) const override {
    return make_cpu_backend(module, program, memory, *this, options);
  }

 private:
  std::shared_ptr<Guard> guard_ = std::make_shared<Guard>();
  std::unique_ptr<DeviceSet> cpus_;
  std::vector<std::unique_ptr<Device>> devices_;
};

}  // namespace xrun::runtime::testing
