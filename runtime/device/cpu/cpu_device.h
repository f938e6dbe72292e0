// CPU devices: each a TBB arena with its number of workers; all workers compute with the same floating-point modes.
#pragma once

#include "runtime/device/cpu/placement.h"
#include "runtime/device/device.h"

namespace xrun::runtime {

// One device for each entry of `threads` (workers, at least 1). While the set lives, the process may have as many TBB
// workers as the devices together want (docs/determinism.md, "Collectives").
//   cpus  by device, of this machine (place_devices): workers run on its processors alone, and its memory is asked of
//         its nodes; empty: the system chooses both
std::unique_ptr<DeviceSet> make_cpu_devices(std::span<const int> threads, std::span<const DeviceCpus> cpus = {});

// Flush-to-zero and denormals-are-zero, as VDPBF16PS and AMX have them always (docs/determinism.md, "Floating-point
// mode"), and one OpenMP thread for libraries that ask. Set while the object lives, restored after; for threads that
// run kernels outside of a device.
class ComputeModes {
 public:
  ComputeModes();
  ~ComputeModes();
  ComputeModes(const ComputeModes&) = delete;
  ComputeModes& operator=(const ComputeModes&) = delete;

 private:
  uint32_t saved_mxcsr_;
};

// Whether the calling thread has the modes.
bool has_compute_modes();

}  // namespace xrun::runtime
