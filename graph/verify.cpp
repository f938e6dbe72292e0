#include "graph/verify.h"

#include <set>

#include "graph/infer.h"

namespace xrun {
namespace {

Error broken(const std::string& what) {
  return {ErrorKind::kWorld, "XG0002", "internal: the graph is not well formed: " + what, "please report this", {}};
}

Status verify_node(const Graph& graph, size_t index) {
  const Node& node = graph.nodes[index];
  const std::string name = "node #" + std::to_string(index) + " " + std::string(node.op->name);
  for (const ValueId id : node.inputs) {
    if (!graph.values.has(id)) {
      return broken(name + " reads an unknown value");
    }
    const NodeId producer = graph.value(id).producer;
    if (producer.valid() && static_cast<size_t>(producer.index) >= index) {
      return broken(name + " reads a value that is made later");
    }
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (!graph.values.has(node.outputs[i])) {
      return broken(name + " writes an unknown value");
    }
    const Value& value = graph.value(node.outputs[i]);
    if (value.producer != NodeId(index) || value.output != static_cast<int>(i)) {
      return broken(name + " does not own its output");
    }
  }
  if (node.phase == Phase::kBackward && (!node.forward.valid() || graph.node(node.forward).phase != Phase::kForward)) {
    return broken(name + " belongs to no forward node");
  }
  XRUN_ASSIGN(const OpShape shape, node.op->infer(input_types(graph, node), node.attrs));
  if (shape.outputs.size() != node.outputs.size()) {
    return broken(name + " has another number of outputs than infer gives");
  }
  for (size_t i = 0; i < shape.outputs.size(); ++i) {
    if (shape.outputs[i] != graph.value(node.outputs[i]).type) {
      return broken(name + " gives " + to_text(graph.value(node.outputs[i]).type) + ", infer says " +
                    to_text(shape.outputs[i]));
    }
  }
  return {};
}

}  // namespace

Status verify(const Graph& graph) {
  bool backward = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (backward && graph.nodes[i].phase == Phase::kForward) {
      return broken("a forward node follows a backward node");
    }
    backward = graph.nodes[i].phase == Phase::kBackward;
    XRUN_TRY(verify_node(graph, i));
  }
  std::set<std::string> names;
  for (size_t p = 0; p < graph.params.size(); ++p) {
    const Parameter& parameter = graph.params[p];
    if (!names.insert(parameter.name).second &&
        !(graph.is_tied_copy(ParamId(p)) && graph.param(parameter.tied).name == parameter.name)) {
      return broken("two parameters named " + parameter.name);
    }
  }
  if (!graph.param_grads.empty() && graph.param_grads.size() != graph.params.size()) {
    return broken("gradients do not match parameters");
  }
  for (size_t i = 0; i < graph.param_grads.size(); ++i) {
    const ValueId grad = graph.param_grads[i];
    if (grad.valid() && graph.value(grad).type.dims != graph.value(graph.params[i].value).type.dims) {
      return broken("the gradient of " + graph.params[i].name + " has another shape");
    }
  }
  return {};
}

}  // namespace xrun
