// A device: memory, and streams of tasks that run in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "graph/base/result.h"
#include "graph/base/units.h"

namespace xrun {
struct Module;
namespace planner {
struct Program;
}
}  // namespace xrun

namespace xrun::runtime {

class Backend;      // runtime/device/backend.h
class BoundMemory;  // runtime/device/bound_memory.h
struct BackendOptions;

// A call of the function `run` with its arguments. Unlike std::function it needs no allocation.
struct Task {
  void (*run)(void* context, int32_t argument) = nullptr;
  void* context = nullptr;
  int32_t argument = 0;
};

// Tasks of one stream run one after the other, in the order in which they were started. The two streams of a device run
// concurrently; if both share one worker, tasks of kExchanges run first.
enum class DeviceStream : uint8_t { kCompute, kExchanges };
inline constexpr size_t kDeviceStreams = 2;

// A callback of a copy, called once, with an error if the copy failed. It may be called by any thread, also before the
// function that begins the copy returns. It must not wait.
struct CopyDone {
  void (*done)(void* context, Status status) = nullptr;
  void* context = nullptr;
};

// The memory of a device for one program: a single mapping, in which buffers are identified by their offsets. Any code
// may copy ranges to and from it; only kernels of the device use addresses in it. Threads: calls on ranges that do not
// overlap may run at the same time.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual Bytes bytes() const = 0;
  virtual void read(Bytes offset, std::span<std::byte> out) const = 0;
  virtual void write(Bytes offset, std::span<const std::byte> in) = 0;
  virtual void fill(Bytes offset, Bytes bytes, std::byte value) = 0;
  // Begins to copy from the memory of a device of the same kind. The copy may run until `done` is called. REQUIRES:
  // called by a task of this device; no other code accesses the copied bytes, or writes to those that are read, before.
  virtual void copy_from(const DeviceMemory& from, Bytes from_offset, Bytes offset, Bytes bytes, CopyDone done) = 0;
  // Returns the first error of `read`, `write` or `fill`: a device may be lost. Call it before bytes that were read
  // leave the process, since they have no meaning after an error.
  virtual Status status() const { return {}; }
  // The address of the byte at `offset` for kernels. REQUIRES: only tasks of the device dereference it.
  virtual std::byte* kernel_address(Bytes offset) const = 0;
  // The address of the byte at `offset` for any thread and for system calls; null if the memory is not the host's.
  virtual std::byte* host_address(Bytes /*offset*/) const { return nullptr; }
};

// The memory of the host for one program: a single mapping, with the batches that the loader writes and the lists of
// classes. Threads: any code of the host may access ranges that do not overlap.
class HostArena {
 public:
  virtual ~HostArena() = default;
  virtual Bytes bytes() const = 0;
  // The address of the byte at `offset` for code of the host.
  virtual std::byte* at(Bytes offset) const = 0;
  // The address of that byte for instructions of the devices.
  virtual std::byte* kernel_address(Bytes offset) const { return at(offset); }
};

// Maps `bytes` zeroed bytes for devices that access the memory of the host like any other code of it. Errors: kWorld if
// the system has not enough memory.
Result<std::unique_ptr<HostArena>> map_pageable(Bytes bytes);

// Threads: any.
class Device {
 public:
  virtual ~Device() = default;
  virtual int index() const = 0;  // index in the program
  virtual int workers() const = 0;
  // Maps `bytes` zeroed bytes, followed by `behind` bytes of address space over which files will be mapped
  // (HostMemory::map). The device outlives the memory. Errors: kWorld if the system has not enough memory.
  virtual Result<std::unique_ptr<DeviceMemory>> map(Bytes bytes, Bytes behind = 0) = 0;
  // Queues a task, which runs after all tasks that were started on the stream before it. Never blocks.
  virtual void start(DeviceStream stream, Task task) = 0;
  // Whether no task is running or queued; for the watch over hanging work (work_deadline.h).
  virtual bool idle() const { return true; }
};

// Devices of one kind that were created together: all devices of a program, or the devices of one rank.
class DeviceSet {
 public:
  virtual ~DeviceSet() = default;
  virtual std::span<const std::unique_ptr<Device>> devices() const = 0;  // in order of index, without gaps
  // Maps `bytes` zeroed bytes of the host, in a way that the devices can copy from and to them. The set outlives the
  // memory. Errors: kWorld if the system has not enough memory.
  virtual Result<std::unique_ptr<HostArena>> map_host(Bytes bytes) const = 0;
  // Makes a program ready to run on these devices. All arguments outlive the backend. Errors: kWorld, kContent (a plan
  // for other kernels, an operator without a kernel).
  virtual Result<std::unique_ptr<Backend>> bind(const Module& module, const planner::Program& program,
                                                const BoundMemory& memory, const BackendOptions& options) const = 0;

  int first() const { return devices().empty() ? 0 : devices()[0]->index(); }
  int count() const { return static_cast<int>(devices().size()); }
  bool has(int index) const { return index >= first() && index < first() + count(); }
  Device& device(int index) const { return *devices()[static_cast<size_t>(index - first())]; }
};

// Runs body(device) as a task of each device, and waits until all of them have ended. If several fail, returns the
// error of the device with the lowest index. REQUIRES: the calling thread is not a worker.
Status run_on_each(const DeviceSet& devices, const std::function<Status(Device& device)>& body);

}  // namespace xrun::runtime
