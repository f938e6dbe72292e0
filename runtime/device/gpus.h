// The GPUs of this machine that the CUDA runtime finds. Devices are CPU cores: nothing computes on a GPU yet.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/base/units.h"

namespace xrun::runtime {

struct Gpu {
  std::string name;        // "NVIDIA H100 80GB HBM3"
  Bytes memory = 0;        // total memory of the GPU
  std::string capability;  // compute capability: "9.0"
  bool operator==(const Gpu&) const = default;
};

struct Gpus {
  std::vector<Gpu> found;
  std::string driver;   // the newest CUDA version that the driver supports: "13.0"; empty without a driver
  std::string runtime;  // version of the CUDA runtime that this xrun is linked with
  std::string error;    // CUDA's error message if it could not list the GPUs
};

// Finds the GPUs; nullopt if this xrun was built without CUDA (the CMake option XRUN_CUDA).
std::optional<Gpus> detect_gpus();

// Returns the lines that `xrun doctor` prints about the GPUs.
std::vector<std::string> describe(const std::optional<Gpus>& gpus);

}  // namespace xrun::runtime
