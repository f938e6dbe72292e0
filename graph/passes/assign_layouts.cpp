// Assigns a layout to each 4-d tensor in two passes over the nodes:
//   1. find_wishes, from last to first: the layout that the readers of each value need. An operator without a rule of
//      its own passes on what the readers of its result need.
//   2. visit, from first to last: the layout of each node. It is given by the operator's rule; an element-wise operator
//      takes the common layout of its operands or, if they differ, the one that its readers need.
// An operand that is stored in another layout is copied by a node `reorder`. Copies cost a pass over the tensor, which
// is why a value takes the layout of its readers if it has the choice.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "graph/base/check.h"
#include "graph/infer.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace xrun {
namespace {

std::string_view name_of(Layout layout) { return layout == Layout::kChannelsLast ? "channels_last" : "row_major"; }

// Whether row-major and channels-last store the elements of this type in the same order.
bool is_one_order(const TensorType& type) { return type.dims[1] == 1 || type.dims[2] * type.dims[3] == 1; }

class Assigner {
 public:
  Assigner(const Graph& graph, const OpDef* reorder)
      : graph_(graph), reorder_(reorder), wishes_(graph.values.size()), rewriter_(graph) {}

  Result<Graph> run() {
    find_wishes();
    for (Value& value : rewriter_.result().values) {
      set_layout(value, Layout::kChannelsLast);
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      XRUN_TRY(visit(NodeId(i)));
    }
    return std::move(rewriter_).finish();
  }

 private:
  static void set_layout(Value& value, Layout layout) {
    value.type.layout = value.type.has_layouts() ? layout : Layout::kRowMajor;
  }

  static std::optional<Layout> fixed(LayoutRule rule) {
    return rule == LayoutRule::kChannelsLast ? std::optional(Layout::kChannelsLast)
           : rule == LayoutRule::kRowMajor   ? std::optional(Layout::kRowMajor)
                                             : std::nullopt;
  }

  // Finds, for each value, the layout that its first reader needs. A reader that takes any layout of its operands needs
  // what its own readers need.
  void find_wishes() {
    for (size_t i = graph_.nodes.size(); i-- > 0;) {
      const Node& node = graph_.nodes[i];
      const LayoutRule rule = layout_rule(graph_, node);
      const auto wish = rule == LayoutRule::kAlike && !node.outputs.empty() ? wishes_[node.outputs[0]] : fixed(rule);
      for (const ValueId input : node.inputs) {
        wishes_[input] = wish ? wish : wishes_[input];
      }
    }
  }

  Status visit(NodeId id) {
    const Node& node = graph_.node(id);
    const LayoutRule rule = layout_rule(graph_, node);
    std::vector<ValueId> inputs = rewriter_.map(node.inputs);
    Layout layout = fixed(rule).value_or(Layout::kRowMajor);
    if (rule == LayoutRule::kAlike) {
      layout = common_layout(node, inputs);
    }
    for (ValueId& input : inputs) {
      const TensorType& type = rewriter_.result().value(input).type;
      if (rule != LayoutRule::kAny && type.has_layouts() && type.layout != layout && !is_one_order(type)) {
        XRUN_ASSIGN(input, reordered(input, layout, id));
      }
    }
    const Layout free = free_layout(node, inputs);
    const NodeId made = rewriter_.copy(id, std::move(inputs), node.attrs);
    for (const ValueId output : rewriter_.result().node(made).outputs) {
      set_layout(rewriter_.result().value(output), rule == LayoutRule::kAny ? free : layout);
    }
    return {};
  }

  // The layouts of those inputs whose elements have different orders in the two layouts.
  std::vector<Layout> layouts_of(const std::vector<ValueId>& inputs) const {
    std::vector<Layout> layouts;
    for (const ValueId input : inputs) {
      const TensorType& type = graph_of_result().value(input).type;
      if (type.has_layouts() && !is_one_order(type)) {
        layouts.push_back(type.layout);
      }
    }
    return layouts;
  }

  // The layout of an operator whose operands and results have one layout. Random numbers are drawn in memory order, so
  // the gradient of such an operator has the layout of the forward result.
  Layout common_layout(const Node& node, const std::vector<ValueId>& inputs) const {
    if (node.op->random && node.phase == Phase::kBackward) {
      return graph_of_result().value(rewriter_.map(graph_.node(node.forward).outputs[0])).type.layout;
    }
    const std::vector<Layout> layouts = layouts_of(inputs);
    const bool differ = std::ranges::adjacent_find(layouts, std::not_equal_to()) != layouts.end();
    const Layout first = layouts.empty() ? Layout::kRowMajor : layouts[0];
    return layouts.empty() || differ ? wish_for(node).value_or(first) : first;
  }

  // The layout of an operator that can write any layout: the one that the reader of its result needs, or else the
  // layout of its operand.
  Layout free_layout(const Node& node, const std::vector<ValueId>& inputs) const {
    const std::vector<Layout> layouts = layouts_of(inputs);
    return wish_for(node).value_or(layouts.empty() ? Layout::kRowMajor : layouts[0]);
  }

  std::optional<Layout> wish_for(const Node& node) const {
    return node.outputs.empty() ? std::nullopt : wishes_[node.outputs[0]];
  }

  const Graph& graph_of_result() const { return rewriter_.result(); }

  // A copy of the value in another layout; an existing copy is shared if possible. A partition may cut between two
  // forward nodes, so backward nodes share a copy only if they have one forward node, or if that node also reads the
  // copy.
  Result<ValueId> reordered(ValueId value, Layout to, NodeId reader) {
    const Node& node = graph_.node(reader);
    const bool backward = node.phase == Phase::kBackward;
    const NodeId forward = backward ? node.forward : reader;
    const bool shared = !backward || read_by_forward_.contains({value, forward});
    const auto [at, fresh] = copies_.try_emplace({value, shared ? NodeId() : forward}, ValueId());
    if (!backward) {
      read_by_forward_.insert({value, forward});
    }
    if (fresh) {
      XRUN_CHECK(reorder_ != nullptr, "layouts that differ need the operator `reorder`");
      Graph& graph = rewriter_.result();
      XRUN_ASSIGN(const NodeId made, call_op(graph, *reorder_, {value}, Attrs{{"to", std::string(name_of(to))}},
                                             node.path + ".reorder", node.span));
      Node& copy = graph.node(made);
      copy.expansion = node.expansion;
      copy.phase = node.phase;
      if (backward) {
        copy.forward = graph.value(rewriter_.map(graph_.node(forward).outputs[0])).producer;
      }
      at->second = copy.outputs[0];
      set_layout(graph.value(at->second), to);
    }
    return at->second;
  }

  const Graph& graph_;
  const OpDef* reorder_;
  IdVector<ValueId, std::optional<Layout>> wishes_;
  Rewriter rewriter_;
  std::map<std::pair<ValueId, NodeId>, ValueId> copies_;  // key: value and forward node; no node: in the forward part
  std::set<std::pair<ValueId, NodeId>> read_by_forward_;  // forward nodes that read such a copy
};

}  // namespace

LayoutRule layout_rule(const Graph& graph, const Node& node) {
  return node.op->layout_of == nullptr ? node.op->layout : node.op->layout_of(input_types(graph, node), node.attrs);
}

Result<Graph> assign_layouts(Graph graph, const OpRegistry& registry) {
  return Assigner(graph, registry.find("reorder")).run();
}

}  // namespace xrun
