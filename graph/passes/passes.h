// The passes: graph to graph, each in its own file, in the order of graph/pipeline.cpp.
#pragma once

#include "graph/graph.h"

namespace xrun {

// Class weights and partial labels (graph/partial_labels.h): each term of the loss is multiplied by new inputs, f32[N],
// with the factors of its rows. `mul` multiplies, or the head pass if a sharded head gives the loss, which then has a
// factor as its third input. Runs before simplification, only in training. REQUIRES: split_loss.
Result<Graph> weigh_loss(Graph graph, const OpRegistry& registry, const TrainSpec& train, const DataSpec& data);

// Simplification: calls that return their input (OpDef::is_identity) are removed.
Result<Graph> simplify(Graph graph);

// Common subexpressions: two calls of one operator on the same values with equal arguments become one, unless they own
// parameters or draw random numbers.
Result<Graph> eliminate_common_subexpressions(Graph graph);

// Dead code elimination: nodes that reach neither loss, outputs, metrics, heads nor gradients are removed; with a loss,
// updates of states stay.
Result<Graph> eliminate_dead_code(Graph graph);

// Results that are an input itself, such as an output `raw = x`, or x through operators that simplification removes:
// each becomes a copy, since a plan keeps values that operators make. For inference, after simplification. Needs the
// operator `stop_gradient`; a registry without it leaves the graph unchanged.
Result<Graph> copy_results(Graph graph, const OpRegistry& registry);

// Mixed precision: activations of narrow operators become bf16, by explicit casts; weights stay f32 and are rounded
// when a kernel prepares them; losses are f32 (PrecisionRule).
// Before differentiation. Needs the operator `cast` in the registry.
Result<Graph> mix_precision(Graph graph, const OpRegistry& registry, DType narrow);

// Fusion of relu into its only producer (OpDef::absorbs): bn -> relu, add -> relu. A fused group is one node, so a
// partition never cuts it.
// Before differentiation.
Result<Graph> fuse_elementwise(Graph graph);

// Fusion of element-wise operators (OpDef::fuses) into their only consumer: a chain becomes one `map`, which rounds
// where its operators stored bf16. A group has at most as many inputs as operators, so that training keeps no more
// values. Phase: the forward part before differentiation, the backward part after it, where all operators of a group
// must belong to one forward node: the sum of the gradients of a value with the gradient of its producer. A registry
// without the operator `map` leaves the graph unchanged.
Result<Graph> fuse_maps(Graph graph, const OpRegistry& registry, Phase phase);

// Fusion of other functions into producers that accept any (OpDef::absorbs is `*`). A function of a single number, an
// operator or a `map`, becomes the producer's attribute `then`: bn -> silu. An operator with weights is fused with its
// producer if the registry has the pair: bn -> prelu is `bn.prelu`. Before differentiation.
Result<Graph> fuse_functions(Graph graph, const OpRegistry& registry);

// Fusion of sums into the producer of one of their operands if the registry has the pair: bn(x) + y is `bn.add`. Before
// differentiation.
Result<Graph> fuse_residuals(Graph graph, const OpRegistry& registry);

// Fusion of a function with the reduction that is its only reader (OpDef::takes_function); the reduction computes it as
// its attribute `of`: mean(x * x, 1) reads only x. Before differentiation.
Result<Graph> fuse_reductions(Graph graph);

// Gradients that are only summed (OpDef::sums), those of broadcast operands and of parameters: the element-wise
// operator that computes them also sums them, as `map.sum`. After differentiation.
Result<Graph> fuse_sums(Graph graph, const OpRegistry& registry);

// Layouts of all tensors that can be stored in more than one layout (LayoutRule). Inputs from data and operands of
// convolutions are channels-last, operators along the last dimension are row-major, and values between them have the
// layout of their operands or their readers. Between two different rules an operator `reorder` copies the tensor, once
// for all readers in the forward part and once for each forward node in the backward part. This is the last pass: fused
// operators have other rules, and no other pass preserves layouts.
Result<Graph> assign_layouts(Graph graph, const OpRegistry& registry);

// The rule that a node follows.
LayoutRule layout_rule(const Graph& graph, const Node& node);

}  // namespace xrun
