// The passes: graph to graph, each in its own file, in the order of graph/passes/pipeline.cpp.
#pragma once

#include "graph/graph.h"

namespace xrun {

// Class weights and partial labels (graph/layouts/partial_labels.h): multiplies each term of the loss by a new input,
// f32[N], that has the factors of its rows. If a sharded head gives the loss, the factors become the third input of the
// loss, and the head pass multiplies by them; otherwise an operator `mul` does. Runs before simplification, only in
// training. REQUIRES: split_loss.
Result<Graph> weigh_loss(Graph graph, const OpRegistry& registry, const TrainSpec& train, const DataSpec& data);

// Mixed samples (graph/layouts/mixed_labels.h): each term of the loss becomes the sum of its values for the label and
// for the partner label, each multiplied by the share of its label. The pass adds the inputs of partner labels and
// shares. Runs after weigh_loss, only in training. REQUIRES: no term of a sharded head, unless rows have only one
// label.
Result<Graph> mix_loss(Graph graph, const OpRegistry& registry, const TrainSpec& train, const DataSpec& data);

// Simplification: calls that return their input (OpDef::is_identity) are removed.
Result<Graph> simplify(Graph graph);

// Common subexpressions: two calls of one operator on the same values with equal arguments become one, unless they own
// parameters or draw random numbers.
Result<Graph> eliminate_common_subexpressions(Graph graph);

// Dead code elimination: nodes that reach neither loss, outputs, metrics, heads nor gradients are removed; with a loss,
// updates of states are kept.
Result<Graph> eliminate_dead_code(Graph graph);

// Replaces each result that is itself an input by a copy, since a plan keeps only values that operators make. Such a
// result is an output `raw = x`, or x after operators that simplification removes. Runs for inference, after
// simplification. A registry without the operator `stop_gradient` leaves the graph unchanged.
Result<Graph> copy_results(Graph graph, const OpRegistry& registry);

// Mixed precision (PrecisionRule): explicit casts make the activations of narrow operators bf16. Weights stay f32 and
// are rounded when a kernel prepares them; losses are f32. Runs before differentiation. The registry must have the
// operator `cast`.
Result<Graph> mix_precision(Graph graph, const OpRegistry& registry, DType narrow);

// Fuses a relu into its producer if the relu is the producer's only consumer (OpDef::absorbs): bn -> relu, add -> relu.
// A fused group is one node, so a partition never cuts it. Runs before differentiation.
Result<Graph> fuse_elementwise(Graph graph);

// Fuses element-wise operators (OpDef::fuses) into their only consumer. A chain becomes one `map`, which rounds values
// that its operators stored in bf16. A group has at most as many inputs as operators, so training keeps no more values.
// With the forward phase the pass runs before differentiation. With the backward phase it runs after differentiation,
// and all operators of a group must belong to one forward node; this fuses the sum of a value's gradients with the
// gradient of the value's producer. A registry without the operator `map` leaves the graph unchanged.
Result<Graph> fuse_maps(Graph graph, const OpRegistry& registry, Phase phase);

// Fuses other functions into producers that accept any function (OpDef::absorbs is `*`). A function of a single number,
// an operator or a `map`, becomes the producer's attribute `then`: bn -> silu. An operator with weights is fused with
// its producer if the registry has an operator for the pair: bn -> prelu is `bn.prelu`. Runs before differentiation.
Result<Graph> fuse_functions(Graph graph, const OpRegistry& registry);

// Fuses a sum into the producer of one of its operands if the registry has an operator for the pair: bn(x) + y is
// `bn.add`. Runs before differentiation.
Result<Graph> fuse_residuals(Graph graph, const OpRegistry& registry);

// Fuses a function with the reduction that is its only reader (OpDef::takes_function). The reduction then computes the
// function, its attribute `of`, while it reads: mean(x * x, 1) reads only x. Runs before differentiation.
Result<Graph> fuse_reductions(Graph graph);

// Fuses a gradient with the operator that sums it (OpDef::sums) if nothing else reads the gradient, as for broadcast
// operands and parameters. The element-wise operator that computes the gradient becomes `map.sum`, which also sums.
// Runs after differentiation.
Result<Graph> fuse_sums(Graph graph, const OpRegistry& registry);

// Chooses the layouts of all tensors that can be stored in more than one layout (LayoutRule). Inputs from data and
// operands of convolutions are channels-last. Operators along the last dimension are row-major. Values between them
// have the layout of their operands or of their readers. If two rules meet, an operator `reorder` copies the tensor:
// once for all readers in the forward part, and once for each forward node in the backward part. This is the last pass:
// fused operators have other rules, and no other pass preserves layouts.
Result<Graph> assign_layouts(Graph graph, const OpRegistry& registry);

// The layout rule that a node follows.
LayoutRule layout_rule(const Graph& graph, const Node& node);

}  // namespace xrun
