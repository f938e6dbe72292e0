// The decision about the updates of a step in memory of a GPU: how gradients are clipped, and whether updates are held
// back (ops/gpu/update/update_decision.h). Each instruction that updates weights makes it anew before its updates, and
// all of a step make the same one.
#pragma once

#include <memory>

#include "graph/module.h"
#include "ops/gpu/launch/gpu_launch.h"
#include "ops/gpu/update/update_decision.h"
#include "ops/jit/gpu_loop.h"
#include "planner/program/program.h"
#include "runtime/device/binding.h"
#include "runtime/device/cuda/bound_launches.h"
#include "runtime/device/cuda/step_memory.h"

namespace xrun::cuda {

// Threads: one at a time.
class StepDecision {
 public:
  // Allocates the decision, with that of a step without clipping, and the table of the sums. The context is current in
  // the calling thread and outlives the object. Errors: kWorld.
  static Result<std::unique_ptr<StepDecision>> make(const Context& context, const Module& module,
                                                    const planner::Program& program, StepMemory& memory,
                                                    ops::GpuTarget target);

  // The address of the GpuDecision.
  CUdeviceptr address() const { return decision_->address(); }
  // Appends the launch that makes the decision for an instruction that updates weights: it reads the sums of squares of
  // all gradients if the instruction has them as an operand. Errors: kWorld.
  Status add(BoundLaunches& launches, KernelStore& kernels, const planner::Instruction& instruction,
             const runtime::Binder& binder) const;
  // Reads the decision. REQUIRES: the work of the step has ended. Errors: kWorld.
  Result<ops::gpu::GpuDecision> read() const;

 private:
  StepDecision(const TrainSpec& train, ops::GpuTarget target) : train_(train), target_(target) {}

  const TrainSpec& train_;
  ops::GpuTarget target_;
  std::unique_ptr<GpuMemory> decision_;
  CUdeviceptr parts_ = 0;
  int64_t part_count_ = 0;
  CUdeviceptr flags_ = 0;
};

}  // namespace xrun::cuda
