// The work of one instruction on a GPU, and the parts of a device that all instructions share.
#pragma once

#include <vector>

#include "graph/base/result.h"
#include "ops/gpu/launch/gpu_kernel.h"
#include "planner/program/program.h"
#include "runtime/device/backend.h"
#include "runtime/device/cuda/cuda_devices.h"
#include "runtime/device/cuda/kernel_store.h"
#include "runtime/device/cuda/step_memory.h"

namespace xrun::cuda {

// A device during the binding of a program. All members outlive the bound work.
struct BoundDevice {
  const CudaDevice& device;
  KernelStore& kernels;
  StepMemory& memory;
  ops::GpuTarget target = ops::GpuTarget::kSm80;
};

// The work of an instruction, with all addresses and kernels. Threads: one call at a time.
class BoundWork {
 public:
  virtual ~BoundWork() = default;
  // Called between steps, before `queue`: no work of the device is under way, so memory of the host that it copies may
  // be written.
  virtual void begin_step(const runtime::StepContext& /*step*/) {}
  // Queues the work, and does not wait for it. Called by the thread that queues the computations of the device, or by
  // the thread that runs steps. Errors: kWorld.
  virtual Status queue(const runtime::StepContext& step, Stream& stream) = 0;
};

}  // namespace xrun::cuda
