// Reverse accumulation:
//   1. find_wanted marks the values that depend on an updated parameter; only these get gradients.
//   2. seed starts the gradients: with the row weights of each dense term of the loss, and with an input "<head>.dx"
//      for the feature of each sharded head.
//   3. The nodes are visited from last to first. All consumers of a node's outputs have then been visited, so their
//      gradients are complete: they are added in consumer order, and the node's OpDef::grad appends its backward nodes.
//   4. check_tied rejects a tied weight that only some of its readers give a gradient.
// The fixed order of consumers makes every sum independent of the plan.
// Tests: tests/graph/passes/passes_test.cpp
#include "graph/passes/autodiff.h"

#include <algorithm>

#include "graph/layouts/head_values.h"
#include "graph/passes/untie.h"

namespace xrun {
namespace {

// Marks values that depend on a parameter that is updated; only their gradients are made.
IdVector<ValueId, bool> find_wanted(const Graph& graph) {
  IdVector<ValueId, bool> wanted(graph.values.size(), false);
  for (const Parameter& parameter : graph.params) {
    wanted[parameter.value] = parameter.updated();
  }
  for (const Node& node : graph.nodes) {
    const bool any = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) { return wanted[id]; });
    for (const ValueId output : node.outputs) {
      wanted[output] = any;
    }
  }
  return wanted;
}

class Differentiator {
 public:
  Differentiator(Graph graph, const OpRegistry& registry, const AutodiffOptions& options)
      : graph_(std::move(graph)),
        registry_(registry),
        options_(options),
        forward_count_(graph_.nodes.size()),
        wanted_(find_wanted(graph_)),
        of_head_(values_of_heads(graph_)),
        partials_(graph_.values.size()) {}

  Result<Graph> run() {
    XRUN_TRY(seed());
    for (size_t i = forward_count_; i-- > 0;) {
      if (!of_head_[graph_.nodes[i].outputs[0]]) {
        XRUN_TRY(visit(NodeId(i)));
      }
    }
    graph_.param_grads.assign(graph_.params.size(), ValueId());
    for (size_t p = 0; p < graph_.params.size(); ++p) {
      const Parameter& parameter = graph_.params[p];
      const auto& partials = partials_[parameter.value];
      if (!parameter.updated() || parameter.head || partials.empty()) {
        continue;
      }
      XRUN_CHECK(partials.size() == 1, "a weight that several operators read is untied first");
      graph_.param_grads[p] = partials[0].grad;
    }
    XRUN_TRY(check_tied());
    return std::move(graph_);
  }

 private:
  // Either all readers of a tied weight give it a gradient, or no reader does.
  Status check_tied() const {
    for (size_t p = 0; p < graph_.params.size(); ++p) {
      const std::vector<ParamId> readers =
          graph_.params[p].tied == ParamId(p) ? tied_group(graph_, ParamId(p)) : std::vector<ParamId>();
      const auto reached = std::ranges::count_if(readers, [&](ParamId id) { return graph_.param_grads[id].valid(); });
      const std::string weight = "`" + graph_.params[p].name + "`";
      if (std::ssize(readers) > kMostReaders) {
        return Error{ErrorKind::kContent, "XG0198",
                     std::to_string(readers.size()) + " operators read the weight " + weight + ", more than " +
                         std::to_string(kMostReaders),
                     "use it fewer times", graph_.params[p].span};
      }
      if (reached > 0 && reached < std::ssize(readers)) {
        return Error{ErrorKind::kContent, "XG0198",
                     "of the " + std::to_string(readers.size()) + " operators that read the weight " + weight + ", " +
                         std::to_string(std::ssize(readers) - reached) + " give it no gradient",
                     "let the loss depend on all of them or on none of them", graph_.params[p].span};
      }
    }
    return {};
  }

  // Starts the gradients. The head pass computes d(objective)/d(feature) of a head; for a dense term the gradient of
  // its rows is the constant row weight.
  Status seed() {
    if (graph_.loss.empty()) {
      return Error{ErrorKind::kContent, "XG0501", "there is no loss to differentiate", "give `loss` in `train`"};
    }
    for (const Head& head : graph_.heads) {
      const ValueId feature = graph_.node(head.node).inputs[0];
      if (!wanted_[feature]) {
        continue;
      }
      TensorType type = graph_.value(feature).type;
      type.dtype = DType::kF32;
      const DType narrow = graph_.value(feature).type.dtype;
      ValueId grad = graph_.add_input(head.name + ".dx", std::move(type));
      grow();
      const NodeId producer = graph_.value(feature).producer;
      if (narrow != DType::kF32 && producer.valid()) {
        XRUN_ASSIGN(std::vector<ValueId> cast,
                    emit("cast", producer, {grad}, Attrs{{"to", std::string(name_of(narrow))}}));
        grad = cast[0];
      }
      partials_[feature].push_back({head.node, grad});
    }
    for (const LossTerm& term : graph_.loss) {
      const NodeId made_by = graph_.value(term.rows).producer;
      if (made_by.valid() && !of_head_[term.rows]) {
        Attrs attrs{{"value", options_.row_weight * term.factor}};
        if (options_.scaled) {
          attrs.set("scaled", true);
        }
        XRUN_ASSIGN(std::vector<ValueId> ones, emit("fill", made_by, {term.rows}, std::move(attrs)));
        partials_[term.rows].push_back({made_by, ones[0]});
      }
    }
    return {};
  }

  Result<std::vector<ValueId>> emit(std::string_view op, NodeId forward, std::vector<ValueId> inputs, Attrs attrs) {
    GradBuilder builder(graph_, registry_, forward, {}, {});
    auto outputs = builder.emit(op, std::move(inputs), std::move(attrs));
    grow();
    return outputs;
  }

  Status visit(NodeId id) {
    std::vector<ValueId> grads;
    bool reached = false;
    const std::vector<ValueId> outputs = graph_.node(id).outputs;
    for (const ValueId output : outputs) {
      XRUN_ASSIGN(ValueId grad, total(output, id));
      grads.push_back(grad);
      reached = reached || grad.valid();
    }
    const OpDef& op = *graph_.node(id).op;
    if (!reached || op.grad == nullptr) {
      return {};
    }
    std::vector<bool> wanted;
    for (const ValueId input : graph_.node(id).inputs) {
      wanted.push_back(wanted_[input]);
    }
    if (std::find(wanted.begin(), wanted.end(), true) == wanted.end()) {
      return {};
    }
    GradBuilder builder(graph_, registry_, id, std::move(grads), wanted);
    XRUN_TRY(op.grad(builder));
    grow();
    for (int i = 0; i < builder.input_count(); ++i) {
      const ValueId grad = builder.grads()[static_cast<size_t>(i)];
      if (wanted[static_cast<size_t>(i)] && grad.valid()) {
        partials_[builder.input(i)].push_back({id, grad});
      }
    }
    return {};
  }

  // The sum of the gradients of a value, in consumer order; invalid if it has no gradient.
  Result<ValueId> total(ValueId value, NodeId producer) {
    std::vector<Partial> partials = partials_[value];
    if (partials.empty()) {
      return ValueId();
    }
    std::stable_sort(partials.begin(), partials.end(),
                     [](const Partial& a, const Partial& b) { return a.from < b.from; });
    ValueId sum = partials[0].grad;
    for (size_t i = 1; i < partials.size(); ++i) {
      XRUN_ASSIGN(std::vector<ValueId> out, emit("add", producer, {sum, partials[i].grad}, {}));
      sum = out[0];
    }
    partials_[value] = {{partials[0].from, sum}};
    return sum;
  }

  struct Partial {
    NodeId from;  // the consumer that the gradient comes from
    ValueId grad;
  };
  void grow() {
    partials_.resize(graph_.values.size());
    wanted_.resize(graph_.values.size(), false);
  }

  Graph graph_;
  const OpRegistry& registry_;
  AutodiffOptions options_;
  size_t forward_count_;
  IdVector<ValueId, bool> wanted_;
  IdVector<ValueId, bool> of_head_;
  IdVector<ValueId, std::vector<Partial>> partials_;
};

}  // namespace

GradBuilder::GradBuilder(Graph& graph, const OpRegistry& registry, NodeId node, std::vector<ValueId> output_grads,
                         std::vector<bool> wanted)
    : graph_(graph),
      registry_(registry),
      node_(node),
      output_grads_(std::move(output_grads)),
      wanted_(std::move(wanted)),
      grads_(graph.node(node).inputs.size()) {}

Result<std::vector<ValueId>> GradBuilder::emit(std::string_view op, std::vector<ValueId> inputs, Attrs attrs) {
  const OpDef* def = registry_.find(op);
  XRUN_CHECK(def != nullptr,
             "gradient of " + std::string(node().op->name) + " uses unknown operator " + std::string(op));
  std::vector<TensorType> types;
  for (const ValueId id : inputs) {
    types.push_back(graph_.value(id).type);
  }
  XRUN_ASSIGN(OpShape shape, def->infer(types, attrs));
  XRUN_CHECK(shape.params.empty(), "a backward operator owns no parameters: " + std::string(op));
  const Node& forward = node();
  const NodeId id = graph_.add_node({.op = def,
                                     .inputs = std::move(inputs),
                                     .operands = static_cast<int>(types.size()),
                                     .attrs = std::move(attrs),
                                     .path = forward.path,
                                     .span = forward.span,
                                     .expansion = forward.expansion,
                                     .phase = Phase::kBackward,
                                     .forward = node_},
                                    shape.outputs);
  return graph_.node(id).outputs;
}

Status GradBuilder::set_grads_by(std::string_view op, std::vector<ValueId> inputs, Attrs attrs) {
  XRUN_ASSIGN(const std::vector<ValueId> grads, emit(op, std::move(inputs), std::move(attrs)));
  for (size_t i = 0; i < grads.size(); ++i) {
    if (wanted_[i]) {
      set_grad(static_cast<int>(i), grads[i]);
    }
  }
  return {};
}

Status GradBuilder::set_grad_by(int input, std::string_view op, std::vector<ValueId> inputs, Attrs attrs) {
  if (wanted(input)) {
    XRUN_ASSIGN(const std::vector<ValueId> grad, emit(op, std::move(inputs), std::move(attrs)));
    set_grad(input, grad[0]);
  }
  return {};
}

void GradBuilder::set_grad(int input, ValueId grad) {
  ValueId& slot = grads_[static_cast<size_t>(input)];
  XRUN_CHECK(!slot.valid(), "two gradients for one input");
  XRUN_CHECK(graph_.value(grad).type.dims == graph_.value(node().inputs[static_cast<size_t>(input)]).type.dims,
             "the gradient of `" + std::string(node().op->name) + "` has another shape than its input");
  slot = grad;
}

Result<Graph> differentiate(Graph graph, const OpRegistry& registry, const AutodiffOptions& options) {
  return Differentiator(untie(std::move(graph)), registry, options).run();
}

}  // namespace xrun
