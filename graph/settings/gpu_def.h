// The kinds of GPUs that a cluster can name, with the figures that their vendor has published. Plans for them are made
// on any machine, without a driver.
#pragma once

#include <span>
#include <string_view>

#include "graph/base/units.h"

namespace xrun {

struct GpuDef {
  std::string_view name;  // "h100"
  // The memory that a plan may use. The card has a few GiB more than the published number of bytes, which are left to
  // the driver.
  Bytes memory = 0;
  double bytes_per_second = 0;  // bandwidth of this memory
  Flops flops_per_second_f32 = 0;
  Flops flops_per_second_bf16 = 0;  // dense products with sums in f32
  Seconds launch = 0;               // time to start a kernel, an estimate: vendors publish none
  double link_rate = 0;             // bytes a second between two GPUs of a node, in each direction
  double host_rate = 0;             // bytes a second between the GPU and its host, in each direction
};

// All kinds, in the order of their memory.
std::span<const GpuDef> gpu_defs();
// Returns the kind with a name, or with another name of it ("h100_80g"); null if there is none.
const GpuDef* find_gpu(std::string_view name);

}  // namespace xrun
