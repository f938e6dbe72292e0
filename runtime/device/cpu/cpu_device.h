// CPU devices. A device is a TBB arena with a fixed number of workers. All workers compute with the same floating-point
// modes.
#pragma once

#include <memory>
#include <span>

#include "ops/workers.h"
#include "runtime/device/cpu/placement.h"
#include "runtime/device/device.h"

namespace xrun::runtime {

// Threads: `for_each` only from a task that runs on this device.
class CpuDevice : public Device, public ops::Workers {
 public:
  int workers() const final { return count(); }
};

// Makes a device for each entry of `threads`, which is the device's number of workers, at least 1. While the set
// exists, TBB may use as many workers in the process as the devices of all sets need together
// (docs/internals/determinism.md, "Collectives").
//   cpus   the processors of each device (place_devices); index: device. Its workers run only on these, and its memory
//          is requested from their NUMA nodes; empty: the system chooses both
//   first  index of the first device in the program
std::unique_ptr<DeviceSet> make_cpu_devices(std::span<const int> threads, std::span<const DeviceCpus> cpus = {},
                                            int first = 0);

// Like make_cpu_devices, but starts all threads before it returns, including those that TBB needs briefly when work
// moves between devices. Otherwise TBB would start a thread only when there is work for it, and if the system refused a
// thread in the middle of a step, the other threads would wait forever. Errors: kWorld XG0803 with the number of
// threads that the system could start.
Result<std::unique_ptr<DeviceSet>> start_cpu_devices(std::span<const int> threads,
                                                     std::span<const DeviceCpus> cpus = {}, int first = 0);

}  // namespace xrun::runtime
