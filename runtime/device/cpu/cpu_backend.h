// Runs programs on CPU devices: binds each instruction once to its kernels and operands, then runs it once per step.
#pragma once

#include <memory>

#include "graph/module.h"
#include "runtime/device/backend.h"
#include "runtime/device/bound_memory.h"
#include "runtime/device/device.h"

namespace xrun::runtime {

// Makes the backend. Instructions of devices outside the set are ignored. REQUIRES: the devices are CPU devices
// (cpu_device.h); for all calls except `run` they have the number of workers that the program requires. Errors: those
// of DeviceSet::bind.
Result<std::unique_ptr<Backend>> make_cpu_backend(const Module& module, const planner::Program& program,
                                                  const BoundMemory& memory, const DeviceSet& devices,
                                                  const BackendOptions& options);

}  // namespace xrun::runtime
