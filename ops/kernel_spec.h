// Makes the kernel spec of a node of a graph, and the kernel of a node.
#pragma once

#include "graph/graph.h"
#include "ops/op.h"

namespace xrun::ops {

struct KernelOptions {
  int64_t norm_rows = 0;
  bool training = true;
  bool deterministic = false;
  Isa isa = Isa::kAvx2;
  bool compile = false;  // element-wise loops (ops/jit/compiler.h)
};

KernelSpec spec_of(const Graph& graph, const Node& node, const KernelOptions& options);

// Whether the operator of a node has a kernel of its own; heads, their losses and metrics belong to the head pass.
bool has_kernel(const Node& node);

// Errors: an operator that has no kernel yet (with the node's span), or that this processor cannot run.
Result<std::unique_ptr<Kernel>> make_kernel(const Graph& graph, const Node& node, const KernelOptions& options);

}  // namespace xrun::ops
