// The graph of a model. Its values and nodes are in vectors, and ids refer to them. The nodes are in topological order,
// which is also the printed order; the planner cuts stages in this order. A Graph is a value: passes take one and
// return another.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/diagnostic.h"
#include "graph/base/id_vector.h"
#include "graph/base/source.h"
#include "graph/op_def.h"
#include "graph/settings/specs.h"
#include "graph/types/attr.h"
#include "graph/types/tensor_type.h"

namespace xrun {

struct NodeTag;
using NodeId = Id<NodeTag>;
struct ParamTag;
using ParamId = Id<ParamTag>;
struct ExpansionTag;
using ExpansionId = Id<ExpansionTag>;

struct Value {
  TensorType type;
  std::string name;       // binding name or path of the producer; for printing
  NodeId producer;        // node that makes the value; invalid for inputs and parameters
  int output = 0;         // index of the value among the producer's outputs
  ParamId param;          // the parameter with this value; invalid for other values
  bool is_input = false;  // fed by data: a model input or a label
};

enum class Phase : uint8_t { kForward, kBackward };

struct Node {
  const OpDef* op = nullptr;
  std::vector<ValueId> inputs;  // the call's operands, then its own parameters in the order of OpShape::params
  int operands = 0;             // number of inputs that are operands; an operand may also be a parameter
  std::vector<ValueId> outputs;
  Attrs attrs;
  std::string path;  // "layer1.bottleneck_2.conv": names tensors and random streams; shared by its backward nodes
  std::vector<std::string> fused_paths;  // paths of the operators that were fused into this one; hints may use them
  Span span;
  ExpansionId expansion;  // the calls in the text that led to this node: Graph::expansions
  Phase phase = Phase::kForward;
  NodeId forward;  // for a backward node: the node that it differentiates
  // The cost, in a graph from a plan file, whose nodes lack `attrs`; other graphs have nullopt (graph/cost.h).
  std::optional<OpCost> cost;
};

// A tensor that lives across steps.
struct Parameter {
  std::string name;  // "layer1.bottleneck_2.conv.weight"
  ValueId value;
  Init init;
  bool trained = true;  // false: a state (running statistics)
  bool head = false;    // class weights of a sharded head: [C, D] or [C]
  bool frozen = false;  // a weight that this run does not update (`freeze`)
  // Set by differentiation if several operators read the weight. Each reader then has a parameter and a gradient of its
  // own; all have one name and stay equal (graph/passes/untie.h). `tied` is the parameter of the first reader, also in
  // that parameter itself.
  ParamId tied;
  Span span;  // the call that owns it, or the label from which its name comes
  bool labelled = false;

  bool updated() const { return trained && !frozen; }
};

// A sharded head. Its node reads features and gives loss and metrics, and is planned as a head pass over all devices.
struct Head {
  std::string name;
  NodeId node;  // the node whose operator has OpDef::head
  Span span;
};

struct NamedValue {
  std::string name;
  ValueId value;
};

// One call in the chain of calls that leads to a node. The nodes of a block share one chain, to save memory.
struct ExpansionStep {
  Expansion step;
  ExpansionId outer;  // the call around this one; invalid for the outermost call
};

struct Graph {
  IdVector<ValueId, Value> values;
  IdVector<NodeId, Node> nodes;  // forward nodes first, then backward nodes, each group topological
  IdVector<ParamId, Parameter> params;
  std::vector<NamedValue> inputs;    // in order of declaration; labels after the model's inputs
  std::vector<NamedValue> outputs;   // the results of inference
  std::vector<NamedValue> bindings;  // all names bound in the model; tests and `train.loss` use them
  std::vector<Head> heads;
  std::vector<ValueId> metrics;            // values of train.metrics, then of train.eval; passes keep them
  std::vector<LossTerm> loss;              // terms of the loss; empty before training is attached
  IdVector<ParamId, ValueId> param_grads;  // gradients after autodiff; invalid: not updated or not reached
  IdVector<ExpansionId, ExpansionStep> expansions;

  const Value& value(ValueId id) const { return values[id]; }
  Value& value(ValueId id) { return values[id]; }
  const Node& node(NodeId id) const { return nodes[id]; }
  Node& node(NodeId id) { return nodes[id]; }
  const Parameter& param(ParamId id) const { return params[id]; }

  ValueId add_input(std::string name, TensorType type);
  ValueId add_param(std::string name, TensorType type, Init init, bool trained, bool head, Span span);
  // Appends a node and a value for each of its outputs. `types`: the output types, from infer.
  NodeId add_node(Node node, const std::vector<TensorType>& types);

  int64_t parameter_count() const;  // trained elements, heads included; a tied weight counts once
  // Whether the parameter belongs to a later reader of a tied weight.
  bool is_tied_copy(ParamId id) const { return params[id].tied.valid() && params[id].tied != id; }
};

// Calls `op` on `inputs`: infers the types, creates the parameters that the call owns, named `path`.weight and so on,
// and appends the node. A tensor in `given` replaces the parameter of its name. All new forward nodes are made here;
// passes copy them. Errors: those of infer, sizes above graph/limits.h, XG0301 for a given tensor of another type,
// XG0203 for a given tensor that the call does not own.
Result<NodeId> call_op(Graph& graph, const OpDef& op, std::vector<ValueId> inputs, Attrs attrs, std::string path,
                       Span span, std::span<const NamedValue> given = {});

// Nodes that consume each value, in node order.
IdVector<ValueId, std::vector<NodeId>> consumers_of(const Graph& graph);

}  // namespace xrun
