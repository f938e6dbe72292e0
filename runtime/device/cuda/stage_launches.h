// Binds the passes of stages, and copies between buffers, to launches and copies of a GPU.
#pragma once

#include <memory>

#include "graph/module.h"
#include "planner/program/program.h"
#include "runtime/device/binding.h"
#include "runtime/device/cuda/bound_work.h"
#include "runtime/device/cuda/node_kernels.h"
#include "runtime/device/cuda/watched_words.h"

namespace xrun::cuda {

// Binds a kForward or kBackward. A call of an operator computes all row blocks of the micro-batch; one that adds to
// gradients has a call for each gradient partial. All arguments outlive the work. REQUIRES: the context of the device
// is current. Errors: kWorld.
Result<std::unique_ptr<BoundWork>> bind_pass(const Module& module, const planner::Program& program,
                                             const runtime::Binder& binder, const NodeKernels& kernels,
                                             const WatchedWords& watched, const planner::Instruction& pass,
                                             const BoundDevice& device);

// Binds a kCopy, also one from the arena of the host. The binder outlives the work.
std::unique_ptr<BoundWork> bind_copy(const runtime::Binder& binder, const planner::Instruction& copy);

}  // namespace xrun::cuda
