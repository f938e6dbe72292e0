// The kernels of GPUs for the nodes that the stages of a program run.
#pragma once

#include <memory>
#include <vector>

#include "graph/graph.h"
#include "ops/gpu/launch/gpu_kernel.h"
#include "planner/program/program.h"

namespace xrun::cuda {

// Immutable. Threads: any.
class NodeKernels {
 public:
  // Makes the kernels for calls over all row blocks of a micro-batch. Errors: XG0824 an operator has no kernel, with
  // the place of its node; XG0625 buffers of the plan are too small for the kernels.
  static Result<NodeKernels> make(const Graph& graph, const planner::Program& program, ops::GpuTarget target);

  // The kernel of a node; null for nodes that no stage runs.
  const ops::gpu::GpuKernel* of(NodeId node) const { return kernels_[static_cast<size_t>(node.index)].get(); }

 private:
  std::vector<std::unique_ptr<ops::gpu::GpuKernel>> kernels_;
};

}  // namespace xrun::cuda
