#include "ops/kernel_spec.h"

namespace xrun::ops {

KernelSpec spec_of(const Graph& graph, const Node& node, const KernelOptions& options) {
  KernelSpec spec{.attrs = node.attrs,
                  .rows = options.norm_rows,
                  .training = options.training,
                  .deterministic = options.deterministic,
                  .isa = options.isa,
                  .path = node.path,
                  .compile = options.compile};
  for (const ValueId id : node.inputs) {
    spec.inputs.push_back(graph.value(id).type);
  }
  for (const ValueId id : node.outputs) {
    spec.outputs.push_back(graph.value(id).type);
  }
  return spec;
}

bool has_kernel(const Node& node) {
  const Op* op = find_op(node.op->name);
  return op != nullptr && op->cpu != nullptr;
}

Result<std::unique_ptr<Kernel>> make_kernel(const Graph& graph, const Node& node, const KernelOptions& options) {
  const Op* op = find_op(node.op->name);
  if (op == nullptr || op->cpu == nullptr) {
    return Error{ErrorKind::kContent, "XG0805", "`" + std::string(node.op->name) + "` can be checked but not run yet",
                 "use an operator that runs: docs/reference/calls_and_settings.md marks those that do not yet",
                 node.span};
  }
  auto kernel = op->cpu(spec_of(graph, node, options));
  if (!kernel.ok() && !kernel.error().span.valid()) {
    Error error = std::move(kernel).error();
    error.span = node.span;
    return error;
  }
  return kernel;
}

}  // namespace xrun::ops
