// Binds the instructions of classifier heads to launches of a GPU (ops/gpu/launch/head/), and the launches that prepare
// class rows.
#pragma once

#include <memory>

#include "graph/module.h"
#include "planner/program/program.h"
#include "runtime/device/binding.h"
#include "runtime/device/bound_memory.h"
#include "runtime/device/cuda/bound_launches.h"
#include "runtime/device/cuda/bound_work.h"
#include "runtime/device/cuda/step_decision.h"

namespace xrun::cuda {

// Whether bind_head binds instructions of this kind.
bool is_head_work(planner::Kind kind);

// Binds a kHeadForward, kReduceStats, kHeadBackward, kHeadNorms, kHeadUpdate, kSumDx or kReduceDx. Class rows and their
// states do not change in a step in which the flag word is not 0; in a training, a loss that is not finite sets its bit
// 0. All arguments outlive the work. REQUIRES: the context of the device is current, and GPUs can run the heads
// (planner/check_gpus.cpp). Errors: kWorld.
Result<std::unique_ptr<BoundWork>> bind_head(const Module& module, const planner::Program& program,
                                             const runtime::Binder& binder, const StepDecision& decision,
                                             const planner::Instruction& instruction, const BoundDevice& device);

// Appends the launches that compute the norms of the class rows of all shards of a device, which passes of cosine heads
// read. Errors: kWorld.
Status bind_head_prepares(const Module& module, const planner::Program& program, const runtime::BoundMemory& memory,
                          int device, ops::GpuTarget target, KernelStore& kernels, BoundLaunches& launches);

}  // namespace xrun::cuda
