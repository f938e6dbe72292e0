// A device: memory, and workers that run tasks on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "ops/workers.h"

namespace xrun::runtime {

// A call that needs no allocation: what runs, on what, and a number.
struct Task {
  void (*run)(void* context, int32_t argument) = nullptr;
  void* context = nullptr;
  int32_t argument = 0;
};

// The memory of a device that a program computes in: one mapping, in which buffers are offsets. Everybody may copy
// ranges into it and out of it; addresses are for the device's own kernels. Threads: calls on ranges that do not
// overlap may run at once.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual Bytes bytes() const = 0;
  virtual void read(Bytes offset, std::span<std::byte> out) const = 0;
  virtual void write(Bytes offset, std::span<const std::byte> in) = 0;
  virtual void fill(Bytes offset, Bytes bytes, std::byte value) = 0;
  // What a kernel is given for the byte at `offset`. REQUIRES: only tasks of the device follow it.
  virtual std::byte* kernel_address(Bytes offset) const = 0;
};

// Threads: `submit` may be called from anywhere; `for_each` only from a task that runs on this device.
class Device : public ops::Workers {
 public:
  virtual int index() const = 0;
  // Maps `bytes` zeroed bytes. The device outlives them. Errors: kWorld when there is not so much.
  virtual Result<std::unique_ptr<DeviceMemory>> map(Bytes bytes) = 0;
  // Runs the task some time soon on one of the workers. Never blocks.
  virtual void submit(Task task) = 0;
  // Whether a submitted task has not begun.
  virtual bool has_waiting() const = 0;
};

// Devices of one kind that were made together, and what they share (the limit on threads of the process).
class DeviceSet {
 public:
  virtual ~DeviceSet() = default;
  virtual std::span<const std::unique_ptr<Device>> devices() const = 0;
  Device& device(int index) const { return *devices()[static_cast<size_t>(index)]; }
  int count() const { return static_cast<int>(devices().size()); }
};

// Runs body(device, its workers) as a task of each of the first `count` devices and waits for all of them; the error of
// the lowest device wins. REQUIRES: the calling thread is no worker.
Status run_on_each(const DeviceSet& devices, int count,
                   const std::function<Status(int device, ops::Workers& workers)>& body);

}  // namespace xrun::runtime
