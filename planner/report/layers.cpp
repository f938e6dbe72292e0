// The figures of a plan by layer of the model.
// Tests: tests/planner/report/text_test.cpp
#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "graph/cost.h"
#include "planner/report/summary.h"

namespace xrun::planner {
namespace {

// Returns the weight of a node for dividing its stage's time among the nodes: the larger of its arithmetic and its
// memory time, if the machine computes 20 operations while it moves a byte.
double weight_of(const Graph& graph, NodeId id) {
  const OpCost cost = cost_of(graph, graph.node(id));
  return 1 + std::max(cost.flops, 20.0 * static_cast<double>(cost.bytes));
}

// Returns the bytes per micro-batch of the forward values that the backward pass of a stage reads; key: node. Each
// value counts once, for the node that makes it. A value of another stage counts for the first node of this stage that
// reads it.
std::map<NodeId, Bytes> saved_by_node(const Program& program, const Graph& graph, const Stage& stage) {
  std::set<ValueId> kept(stage.saved.begin(), stage.saved.end());
  const std::set<ValueId> received(stage.received.begin(), stage.received.end());
  for (const auto* nodes : {&stage.recomputed, &stage.backward}) {
    for (const NodeId id : *nodes) {
      std::ranges::copy_if(graph.node(id).inputs, std::inserter(kept, kept.end()),
                           [&](ValueId value) { return received.contains(value); });
    }
  }
  std::map<NodeId, Bytes> saved;
  const auto count = [&](NodeId id, ValueId value) {
    if (kept.erase(value) > 0) {
      saved[id] += graph.value(value).type.bytes(program.micro_batch_rows(), program.norm_rows);
    }
  };
  for (const NodeId id : stage.forward) {
    for (const auto* values : {&graph.node(id).inputs, &graph.node(id).outputs}) {
      std::ranges::for_each(*values, [&](ValueId value) { count(id, value); });
    }
  }
  for (const ValueId value : std::set(kept)) {  // read only by the backward pass
    count(stage.forward.front(), value);
  }
  return saved;
}

// Adds up the figures of the nodes of each layer.
class LayerList {
 public:
  LayerList(const Program& program, const Graph& graph, int depth)
      : program_(program), graph_(graph), depth_(depth), counted_(graph.params.size(), false) {}

  void add_stage(const Stage& stage) {
    double forward = 0;
    double backward = 0;
    std::map<NodeId, double> back;  // weights of backward nodes; key: their forward node
    std::map<NodeId, Bytes> saved = saved_by_node(program_, graph_, stage);
    for (const NodeId id : stage.forward) {
      forward += weight_of(graph_, id);
    }
    for (const NodeId id : stage.backward) {
      back[graph_.node(id).forward] += weight_of(graph_, id);
      backward += weight_of(graph_, id);
    }
    for (const NodeId id : stage.recomputed) {
      back[id] += weight_of(graph_, id);
      backward += weight_of(graph_, id);
    }
    for (const NodeId id : stage.forward) {
      LayerSummary& layer = layer_of(id, stage.index);
      const Node& node = graph_.node(id);
      layer.output = dims_text(graph_.value(node.outputs[0]).type);
      layer.forward_flops += cost_of(graph_, node).flops;
      layer.forward += stage.forward_time * weight_of(graph_, id) / forward;
      layer.backward += backward > 0 ? stage.backward_time * back[id] / backward : 0.0;
      layer.saved += saved[id];
      count_params(id, layer);
    }
  }

  void add_head(const HeadPlan& head) {
    LayerSummary layer{.name = "head " + graph_.heads[static_cast<size_t>(head.head)].name,
                       .output = format_count(head.classes),
                       .stage = -1,
                       .forward_flops = 2.0 * static_cast<double>(head.active > 0 ? head.active : head.classes) *
                                        static_cast<double>(head.dim)};
    count_params(head.node, layer);
    const auto of_head = [&](Kind kind) {
      return busiest(program_, [&](const Instruction& i) { return i.kind == kind && i.head == head.head; });
    };
    layer.forward = of_head(Kind::kHeadForward);
    layer.backward = of_head(Kind::kHeadBackward) + of_head(Kind::kHeadUpdate);
    layers.push_back(std::move(layer));
  }

  std::vector<LayerSummary> layers;

 private:
  // Returns the layer of a node: the last one, or a new one.
  LayerSummary& layer_of(NodeId id, int stage) {
    const std::string name = layer_name(graph_.node(id).path, depth_);
    if (layers.empty() || layers.back().name != name || layers.back().stage != stage) {
      layers.push_back({.name = name, .stage = stage});
    }
    return layers.back();
  }

  // Counts the parameters that a node reads for a layer, unless they were counted before.
  void count_params(NodeId id, LayerSummary& layer) {
    for (const ValueId input : graph_.node(id).inputs) {
      const ParamId param = graph_.value(input).param;
      if (param.valid() && graph_.param(param).trained && !graph_.is_tied_copy(param) &&
          !counted_[static_cast<size_t>(param.index)]) {
        counted_[static_cast<size_t>(param.index)] = true;
        layer.parameters += graph_.value(input).type.row_elements();
      }
    }
  }

  const Program& program_;
  const Graph& graph_;
  int depth_;
  std::vector<bool> counted_;  // index: parameter; whether it was counted
};

}  // namespace

std::string dims_text(const TensorType& type) {
  std::string text;
  for (size_t i = type.has_batch() ? 1 : 0; i < type.dims.size(); ++i) {
    text += (text.empty() ? "" : " x ") + format_count(type.dims[i]);
  }
  return text.empty() ? "1" : text;
}

std::string layer_name(const std::string& path, int depth) {
  size_t end = path.find('.');
  if (depth == 0) {
    const bool element =
        end != std::string::npos && end + 1 < path.size() && path[end + 1] >= '0' && path[end + 1] <= '9';
    depth = element ? 2 : 1;
  }
  for (int part = 1; part < depth && end != std::string::npos; ++part) {
    end = path.find('.', end + 1);
  }
  return path.substr(0, end);
}

std::vector<LayerSummary> list_layers(const Plan& plan, const Module& module, int depth) {
  LayerList list(plan.training, module.graph, depth);
  for (const Stage& stage : plan.training.stages) {
    list.add_stage(stage);
  }
  for (const HeadPlan& head : plan.training.heads) {
    list.add_head(head);
  }
  return std::move(list.layers);
}

}  // namespace xrun::planner
