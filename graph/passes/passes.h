// The passes: graph to graph, each in a file of its own, in the order of graph/pipeline.cpp.
#pragma once

#include "graph/graph.h"

namespace xrun {

// Class weights and partial labels (graph/partial_labels.h): each term of the loss is multiplied by new inputs, f32[N],
// with factors of its rows: by `mul`, or by the head pass where a sharded head gives the loss, which then has a factor
// as its third input. Before simplification, in training alone. REQUIRES: split_loss.
Result<Graph> weigh_loss(Graph graph, const OpRegistry& registry, const TrainSpec& train, const DataSpec& data);

// Simplification: calls that give back their input (OpDef::is_identity) go.
Result<Graph> simplify(Graph graph);

// Common subexpressions: two calls of one operator on the same values with the same arguments become one, unless they
// own parameters or draw random numbers.
Result<Graph> eliminate_common_subexpressions(Graph graph);

// Dead code elimination: nodes that reach neither loss, outputs, metrics, heads nor gradients go; with a loss, updates
// of states stay.
Result<Graph> eliminate_dead_code(Graph graph);

// Results that an input feeds as it is, such as an output `raw = x`, or x through operators that simplification takes
// away: each becomes a copy, since a plan keeps values that operators make. For inference, after simplification. Needs
// the operator `stop_gradient`; a registry without it leaves the graph as it is.
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
// where its operators stored bf16. A group has at most as many inputs as operators, so that training keeps no more.
// Of the forward part before differentiation; of the backward part after it, where the operators of a group are those
// of one forward node: the sum of the gradients of a value with what its producer makes of it. A registry without the
// operator `map` leaves the graph as it is.
Result<Graph> fuse_maps(Graph graph, const OpRegistry& registry, Phase phase);

// Fusion of other functions into producers that take any (OpDef::absorbs is `*`). One of a single number, of an
// operator or a `map`, is the producer's attribute `then`: bn -> silu. An operator with weights becomes one operator
// with its producer where the registry has the pair: bn -> prelu is `bn.prelu`. Before differentiation.
Result<Graph> fuse_functions(Graph graph, const OpRegistry& registry);

// Fusion of sums into the producer of one of their operands where the registry has the pair: bn(x) + y is `bn.add`.
// Before differentiation.
Result<Graph> fuse_residuals(Graph graph, const OpRegistry& registry);

// Fusion of a function with the reduction that alone reads it (OpDef::takes_function), which computes it as its
// attribute `of`: mean(x * x, 1) reads x alone. Before differentiation.
Result<Graph> fuse_reductions(Graph graph);

// Gradients that are only summed (OpDef::sums), of operands that were broadcast and of parameters: the element-wise
// operator that makes them adds them up itself, as `map.sum`. After differentiation.
Result<Graph> fuse_sums(Graph graph, const OpRegistry& registry);

// Layouts of all tensors that can lie in memory in more than one way (LayoutRule). Inputs from data and what
// convolutions read are channels-last, what works along the last dimension is row-major, and values between them lie as
// their operands or their readers do. Where two rules meet an operator `reorder` copies the tensor, once for all
// readers in the forward part and once for each forward node in the backward part. The last pass: fused operators have
// other rules, and no other pass keeps layouts.
Result<Graph> assign_layouts(Graph graph, const OpRegistry& registry);

// The rule that a node follows.
LayoutRule layout_rule(const Graph& graph, const Node& node);

}  // namespace xrun
