// A program bound to GPUs: all instructions have their kernels and addresses, and a step only queues them.
#pragma once

#include <memory>
#include <span>

#include "graph/module.h"
#include "planner/program/program.h"
#include "runtime/device/backend.h"
#include "runtime/device/cuda/cuda_devices.h"

namespace xrun::cuda {

// Opens a device for each number of a GPU, as a set that binds programs for GPUs. The same number may occur several
// times. `first`: index of the first device in the program. The table outlives the set. Errors: kWorld.
Result<std::unique_ptr<runtime::DeviceSet>> make_cuda_devices(const DriverTable& driver, std::span<const int> gpus,
                                                              int first = 0);

// Binds a program to GPUs. All arguments outlive the backend. Errors: kWorld; kContent with XG0625 a plan for CPUs or
// for other kernels, XG0824 an operator without a kernel.
Result<std::unique_ptr<runtime::Backend>> make_cuda_backend(const Module& module, const planner::Program& program,
                                                            const runtime::BoundMemory& memory,
                                                            const CudaDevices& devices);

}  // namespace xrun::cuda
