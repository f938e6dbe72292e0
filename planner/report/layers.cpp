#include "planner/report/layers.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "graph/cost.h"
#include "planner/report/lines.h"
#include "planner/report/table.h"

namespace xrun::planner {
namespace {

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

// Returns the times of all instructions of a head in a step, on the device that they keep busy longest.
PassTimes head_times(const Program& program, int head) {
  std::map<int, PassTimes> sums;
  PassTimes most;
  for (const Instruction& one : program.instructions) {
    if (is_of_head(one.kind) && one.head == head) {
      const bool is_forward = one.kind <= Kind::kReduceStats || one.kind == Kind::kHeadMass;
      PassTimes& sum = sums[one.device];
      (is_forward ? sum.forward : sum.backward) += one.predicted;
      most = sum.forward + sum.backward > most.forward + most.backward ? sum : most;
    }
  }
  return most;
}

// Adds up the figures of the nodes of each layer.
class LayerList {
 public:
  LayerList(const Program& program, const Graph& graph, int depth)
      : program_(program), graph_(graph), depth_(depth), counted_(graph.params.size(), false) {}

  void add_stage(const Stage& stage) {
    const std::vector<PassTimes> times = node_times(stage);
    std::map<NodeId, Bytes> saved = saved_by_node(program_, graph_, stage);
    for (size_t i = 0; i < stage.forward.size(); ++i) {
      const NodeId id = stage.forward[i];
      LayerSummary& layer = layer_of(id, stage.index);
      const Node& node = graph_.node(id);
      layer.output = dims_text(graph_.value(node.outputs[0]).type);
      layer.forward_flops += cost_of(graph_, node).flops;
      if (!times.empty()) {
        layer.times = layer.times.value_or(PassTimes());
        *layer.times += times[i];
      }
      layer.saved += saved[id];
      layer.nodes.push_back(i);
      count_params(id, layer);
    }
  }

  // `own` is the index of the head in Program::heads.
  void add_head(const HeadPlan& head, int own) {
    LayerSummary layer{.name = "head " + graph_.heads[static_cast<size_t>(head.head)].name,
                       .output = format_count(head.classes),
                       .stage = -1,
                       .forward_flops = 2.0 * static_cast<double>(head.active > 0 ? head.active : head.classes) *
                                        static_cast<double>(head.dim)};
    count_params(head.node, layer);
    layer.times = head_times(program_, own);
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

// Adds up the layers of a stage.
LayerSummary sum_of(const std::vector<LayerSummary>& layers, int stage) {
  LayerSummary sum{.name = "stage " + std::to_string(stage), .output = "", .stage = stage};
  for (const LayerSummary& layer : layers) {
    if (layer.stage == stage) {
      sum.parameters += layer.parameters;
      sum.forward_flops += layer.forward_flops;
      sum.saved += layer.saved;
      if (layer.times) {
        sum.times = sum.times.value_or(PassTimes());
        *sum.times += *layer.times;
      }
    }
  }
  return sum;
}

}  // namespace

PassTimes& PassTimes::operator+=(const PassTimes& other) {
  forward += other.forward;
  backward += other.backward;
  recompute += other.recompute;
  return *this;
}

std::vector<PassTimes> node_times(const Stage& stage) {
  const std::vector<bool> again = stage.runs_again();
  std::vector<PassTimes> times;
  for (size_t i = 0; i < stage.forward_times.size(); ++i) {
    const Seconds forward = stage.forward_times[i];
    times.push_back({.forward = forward, .backward = stage.backward_times[i], .recompute = again[i] ? forward : 0.0});
  }
  return times;
}

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
  for (size_t h = 0; h < plan.training.heads.size(); ++h) {
    list.add_head(plan.training.heads[h], static_cast<int>(h));
  }
  return std::move(list.layers);
}

std::string layers_table(const Plan& plan, const Module& module, int depth) {
  const std::vector<LayerSummary> layers = list_layers(plan, module, depth);
  const std::vector<Stage>& stages = plan.training.stages;
  const bool staged = stages.size() > 1;
  const bool again = std::ranges::any_of(stages, [](const Stage& stage) { return !stage.recomputed.empty(); });
  std::vector<Align> columns{Align::kLeft, Align::kLeft};
  columns.insert(columns.end(), again ? 7 : 6, Align::kRight);
  TextTable table(columns);
  const auto add = [&](std::vector<std::string> cells, const std::string& recompute) {
    if (again) {
      cells.insert(cells.begin() + 6, recompute);
    }
    table.add(std::move(cells));
  };
  const auto milliseconds = [](const LayerSummary& layer, Seconds PassTimes::*part) {
    return layer.times ? format("%.3f", (*layer.times).*part * 1e3) : "-";
  };
  const auto add_row = [&](const LayerSummary& layer) {
    add({layer.name, layer.output, layer.parameters > 0 ? format_count(layer.parameters) : "",
         format("%.3f", layer.forward_flops / 1e6), milliseconds(layer, &PassTimes::forward),
         milliseconds(layer, &PassTimes::backward),
         format("%.2f", static_cast<double>(layer.saved) / static_cast<double>(kMiB)),
         !staged           ? ""
         : layer.stage < 0 ? "all"
                           : std::to_string(layer.stage)},
        milliseconds(layer, &PassTimes::recompute));
  };
  add({"layer", "output", "parameters", "fwd MFLOP", "fwd ms", "bwd ms", "saved MiB", staged ? "stage" : ""},
      "recompute ms");
  std::ranges::for_each(layers, add_row);
  table.add_rule();
  for (const Stage& stage : stages) {
    add_row(sum_of(layers, stage.index));
  }
  const bool known = std::ranges::all_of(
      stages, [](const Stage& stage) { return stage.forward_times.size() == stage.forward.size(); });
  return table.text("") + "MFLOP: forward, of one sample; ms and MiB: of one micro-batch of " +
         format_count(plan.training.micro_batch_rows()) + " samples\n" +
         (plan.training.heads.empty()
              ? ""
              : "ms of a head: of a step, with its sums and its update, on the busiest device\n") +
         (known ? "" : "-: this plan file of an earlier version has no times of layers\n") +
         "saved: kept for the backward pass" + (staged ? ", what other stages sent included\n" : "\n") +
         (plan.layer_times ? "times: " + layer_times_text(plan) + "\n" : "");
}

}  // namespace xrun::planner
