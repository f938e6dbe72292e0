// Reverse-mode differentiation: adds the backward nodes to a graph that has a loss.
#pragma once

#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace xrun {

// The argument of OpDef::grad. It gives access to the tensors and the output gradients of one node, and appends the
// backward nodes of that node.
class GradBuilder {
 public:
  GradBuilder(Graph& graph, const OpRegistry& registry, NodeId node, std::vector<ValueId> output_grads,
              std::vector<bool> wanted);

  const Node& node() const { return graph_.node(node_); }
  ValueId input(int i) const { return node().inputs[static_cast<size_t>(i)]; }
  ValueId output(int i) const { return node().outputs[static_cast<size_t>(i)]; }
  ValueId output_grad(int i) const { return output_grads_[static_cast<size_t>(i)]; }  // invalid: no gradient
  const TensorType& type(ValueId id) const { return graph_.value(id).type; }
  bool wanted(int input) const { return wanted_[static_cast<size_t>(input)]; }
  int input_count() const { return static_cast<int>(node().inputs.size()); }

  // Appends a backward node and returns its outputs. `inputs` also contains the parameters that the node reads. Errors:
  // those of infer.
  Result<std::vector<ValueId>> emit(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {});
  // Appends a node whose outputs are the gradients of inputs 0, 1, ... of the forward node. Gradients that are not
  // needed are dropped.
  Status set_grads_by(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {});
  // Appends a node that computes the gradient of one input. Does nothing if that gradient is not needed.
  Status set_grad_by(int input, std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {});
  // Sets the gradient of an input. REQUIRES: it was not set before.
  void set_grad(int input, ValueId grad);
  const std::vector<ValueId>& grads() const { return grads_; }

 private:
  Graph& graph_;
  const OpRegistry& registry_;
  NodeId node_;
  std::vector<ValueId> output_grads_;
  std::vector<bool> wanted_;
  std::vector<ValueId> grads_;
};

struct AutodiffOptions {
  double row_weight = 1;  // d(objective)/d(loss of a row): 1 / batch for a mean
  bool scaled = false;    // gradients start with the scale of the loss as a factor, which each step sets
};

// Adds backward nodes for `graph.loss` and fills `param_grads`. Weights that several operators read are untied first
// (graph/passes/untie.h). If several consumers contribute to the gradient of a value, `add` nodes sum the contributions
// in consumer order (docs/internals/determinism.md, "Passes over the graph"). Sharded heads are not differentiated
// here: the head pass computes the gradient of a head's feature, which enters the backward part as an input named
// "<head>.dx" (planner, ops/head/head.h). Source: docs/internals/algorithms.md, "Differentiation".
Result<Graph> differentiate(Graph graph, const OpRegistry& registry, const AutodiffOptions& options);

}  // namespace xrun
