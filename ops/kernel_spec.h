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
  bool compile = false;  // whether element-wise loops are compiled (ops/jit/compiler.h)
};

KernelSpec spec_of(const Graph& graph, const Node& node, const KernelOptions& options);

// Whether the operator of a node has a kernel. Heads, their losses and their metrics have no kernel, since the head
// pass computes them.
bool has_kernel(const Node& node);

// Makes the kernel of a node. Errors, with the node's span: an operator that has no kernel yet, or that this processor
// cannot run.
Result<std::unique_ptr<Kernel>> make_kernel(const Graph& graph, const Node& node, const KernelOptions& options);

}  // namespace xrun::ops
