// The GPUs of this machine that CUDA's driver finds, with what `xrun doctor` prints about them.
#pragma once

#include <string>
#include <vector>

#include "graph/base/units.h"
#include "runtime/device/cuda/driver/driver_open.h"

namespace xrun::cuda {

struct Gpu {
  std::string name;        // "NVIDIA H100 80GB HBM3"
  Bytes memory = 0;        // total memory of the GPU
  std::string capability;  // compute capability: "9.0"
  bool operator==(const Gpu&) const = default;
};

struct Gpus {
  std::vector<Gpu> found;
  std::string driver;  // the newest CUDA version that the driver supports: "13.0"; empty without a driver
  std::string error;   // the reason for which GPUs could not be listed, with a fix

  bool operator==(const Gpus&) const = default;
};

// Finds the GPUs. `library` is the driver library. A damaged driver may block the call for ever
// (runtime/device/cuda/machine/gpu_probe.h).
Gpus detect_gpus(const std::string& library = kDriverLibrary);

// Likewise, with the functions of a driver that was opened.
Gpus detect_gpus(const DriverTable& driver);

// Whether the kernels run on the GPU: its compute capability is 8.0 or more.
bool is_usable(const Gpu& gpu);

// Returns the lines that `xrun doctor` prints about the GPUs.
std::vector<std::string> describe(const Gpus& gpus);

// Returns the names of the GPUs with the number of equal ones: "8 x NVIDIA H100 80GB HBM3"; empty without GPUs.
std::string names_of(const Gpus& gpus);

}  // namespace xrun::cuda
