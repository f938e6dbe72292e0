// CPU devices: each a TBB arena with its number of workers; all workers compute with the same floating-point modes.
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

// One device for each entry of `threads` (workers, at least 1), with indices from `first` on. While the set lives, the
// process may have as many TBB workers as the devices of all sets need together (docs/internals/determinism.md,
// "Collectives").
//   cpus  processors of this machine (place_devices); index: device. Workers run only on these, and memory is requested
//         from their nodes; empty: the system chooses both
std::unique_ptr<DeviceSet> make_cpu_devices(std::span<const int> threads, std::span<const DeviceCpus> cpus = {},
                                            int first = 0);

// Like make_cpu_devices, but all threads are started before it returns, including those that TBB needs briefly when
// work moves between devices: TBB starts threads when there is work for them, and one that the system refuses in the
// middle of a step would leave the others waiting.
// Errors: kWorld XG0803 with the number of threads that the system could start.
Result<std::unique_ptr<DeviceSet>> start_cpu_devices(std::span<const int> threads,
                                                     std::span<const DeviceCpus> cpus = {}, int first = 0);

}  // namespace xrun::runtime
