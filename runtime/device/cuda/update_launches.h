// Binds the instructions at the end of a step to launches of a GPU: they sum gradient partials and gradients of
// replicas and of tied weights, sum squares for clipping, update weights, prepare them for kernels, and combine running
// statistics. The host only writes the numbers of a step into page-locked memory before it.
#pragma once

#include <memory>

#include "graph/module.h"
#include "planner/program/program.h"
#include "runtime/device/binding.h"
#include "runtime/device/cuda/bound_work.h"
#include "runtime/device/cuda/node_kernels.h"
#include "runtime/device/cuda/step_decision.h"

namespace xrun::cuda {

// Whether bind_update binds instructions of this kind.
bool ends_step(planner::Kind kind);

// Binds a kFoldPartials, kSumReplicas, kSumTied, kNorm or kUpdate. Weights, states and running statistics do not change
// in a step in which the flag word is not 0. All arguments outlive the work. REQUIRES: the context of the device is
// current, and no gradient is compressed. Errors: kWorld; XG0824 the update of the optimizer cannot be compiled.
Result<std::unique_ptr<BoundWork>> bind_update(const Module& module, const planner::Program& program,
                                               const runtime::Binder& binder, const NodeKernels& kernels,
                                               const StepDecision& decision, const planner::Instruction& instruction,
                                               const BoundDevice& device);

}  // namespace xrun::cuda
