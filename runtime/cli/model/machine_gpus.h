// GPUs of this machine as the devices of a plan: `--devices cuda:...`, or a plan for a cluster of GPUs that is run
// here.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "graph/base/result.h"
#include "graph/settings/gpu_def.h"
#include "graph/settings/schedule_spec.h"
#include "planner/program/machine.h"
#include "planner/program/plan.h"
#include "runtime/cli/console/console.h"
#include "runtime/cli/console/options.h"
#include "runtime/device/device.h"

namespace xrun::cli {

struct MachineGpus {
  std::vector<int> numbers;  // number of the GPU of each device
  GpuDef figures;            // the figures of one device
};

// Returns the GPUs of this machine that the flags name; nullopt if they name none. Opens the driver, unless a plan file
// has given the figures, and notes the kind and the memory of the GPUs. Errors: XG0636 for flags and clusters that do
// not go with GPUs; those of cuda::open_driver and cuda::choose_gpus.
Result<std::optional<MachineGpus>> find_gpus(const GlobalOptions& options, const ClusterSpec& cluster,
                                             const Console& console);

// Makes these GPUs the devices of a machine.
void use_gpus(const MachineGpus& gpus, planner::Machine& machine);

// Rejects a program for GPUs that several processes would run. Errors: XG0635.
Status check_processes(const planner::Program& program, int count);

// Opens the driver and the GPUs of a plan: those that its flags name, otherwise the first ones of this machine.
//   needs    bytes of memory that each device needs
//   workers  number of threads that read data at the same time
// REQUIRES: the plan is for GPUs. Errors: those of cuda::open_driver, cuda::check_chosen and cuda::make_cuda_devices.
Result<std::unique_ptr<runtime::DeviceSet>> start_gpus(const planner::Plan& plan, const std::vector<Bytes>& needs,
                                                       int workers);

}  // namespace xrun::cli
