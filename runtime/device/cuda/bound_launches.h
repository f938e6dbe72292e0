// Lists of launches (ops/gpu/launch/gpu_launch.h) with kernels and addresses, ready to be queued in each step.
#pragma once

#include <span>
#include <vector>

#include "ops/gpu/launch/gpu_launch.h"
#include "runtime/device/backend.h"
#include "runtime/device/cuda/kernel_store.h"

namespace xrun::cuda {

// Addresses and numbers of a call that do not change from step to step. An input or an output that no launch of the
// list names may be 0.
struct CallAddresses {
  std::vector<uint64_t> inputs;
  std::vector<uint64_t> outputs;
  uint64_t scratch = 0;
  uint64_t flags = 0;
  int64_t first_row = 0;
};

// Launches in the order in which they are queued. Threads: one at a time.
class BoundLaunches {
 public:
  // Appends launches. REQUIRES: the context of the kernels is current. Errors: kWorld.
  Status add(KernelStore& kernels, std::span<const ops::gpu::GpuLaunch> launches, const CallAddresses& at);

  // Queues all launches. Arguments for which each step has another value come from `step`. Errors: kWorld.
  Status queue(const runtime::StepContext& step, const Stream& stream);

  size_t size() const { return launches_.size(); }

 private:
  // An argument with another value in each step.
  struct StepArgument {
    size_t offset = 0;  // in the block of arguments
    ops::gpu::GpuArgument argument;
  };
  struct Bound {
    Kernel kernel;
    Grid grid;
    Arguments arguments;
    std::vector<StepArgument> of_step;
  };

  std::vector<Bound> launches_;
};

}  // namespace xrun::cuda
