// The kernels of a program, created once: one for each node that a stage runs, for row blocks of the plan's size.
#pragma once

#include <memory>
#include <vector>

#include "graph/graph.h"
#include "ops/op.h"
#include "planner/program/program.h"

namespace xrun::runtime {

// Threads: kernels are immutable; any number of workers may run one.
class KernelSet {
 public:
  // Creates the kernels. Errors: an operator has no kernel for its shapes, with the source position of its node; XG0625
  // buffers in the plan are too small for the kernels of this machine.
  static Result<KernelSet> make(const Graph& graph, const planner::Program& program, ops::Isa isa);

  // The kernel of a node; null for nodes that no stage runs (heads, their losses and metrics).
  const ops::Kernel* of(NodeId node) const { return kernels_[static_cast<size_t>(node.index)].get(); }

 private:
  std::vector<std::unique_ptr<ops::Kernel>> kernels_;
};

}  // namespace xrun::runtime
