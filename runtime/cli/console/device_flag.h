// The value of --devices: a number of CPU devices, or GPUs of this machine.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"

namespace xrun::cli {

struct DeviceFlag {
  int count = 0;                         // number of devices; 0: as many as there are GPUs
  std::optional<std::vector<int>> gpus;  // number of the GPU of each device; empty list: all GPUs; nullopt: CPUs
};

// Reads "2", "cuda" (all GPUs), "cuda:0", "cuda:0,1", or "cuda:0,0" (two devices on one GPU). Errors: kUsage, with a
// message that continues "`--devices cuda:`".
Result<DeviceFlag> parse_device_flag(std::string_view text);

// The maximum number of devices of a plan, and the largest number of a GPU plus one.
inline constexpr int kMostDevices = 1024;

}  // namespace xrun::cli
