// Tests: tests/planner/report/layers_test.cpp
#include "planner/report/stages_json.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "graph/cost.h"
#include "planner/report/layers.h"

namespace xrun::planner {
namespace {

using Json = nlohmann::ordered_json;

void add_times(const std::optional<PassTimes>& times, Json& object) {
  object["forward_seconds"] = times ? Json(times->forward) : Json();
  object["backward_seconds"] = times ? Json(times->backward) : Json();
  object["recompute_seconds"] = times ? Json(times->recompute) : Json();
}

std::optional<PassTimes> time_at(const std::vector<PassTimes>& times, size_t at) {
  return times.empty() ? std::optional<PassTimes>() : times[at];
}

Json nodes_json(const Stage& stage, const std::vector<size_t>& places, const Graph& graph) {
  const std::vector<PassTimes> times = node_times(stage);
  Json list = Json::array();
  for (const size_t at : places) {
    const Node& node = graph.node(stage.forward[at]);
    Json one{{"path", node.path}, {"op", node.op->name}};
    add_times(time_at(times, at), one);
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace

Json stages_json(const Plan& plan, const Graph& graph) {
  Json list = Json::array();
  for (const Stage& stage : plan.training.stages) {
    const auto path = [&](size_t at) { return graph.node(stage.forward[at]).path; };
    list.push_back({{"index", stage.index},
                    {"devices", stage.devices},
                    {"layers", stage.forward.size()},
                    {"first", stage.forward.empty() ? "" : path(0)},
                    {"last", stage.forward.empty() ? "" : path(stage.forward.size() - 1)},
                    {"recomputed", stage.recomputed.size()},
                    {"forward_seconds", stage.forward_time},
                    {"backward_seconds", stage.backward_time},
                    {"parameter_bytes", stage.parameter_bytes},
                    {"activation_bytes", stage.activation_bytes}});
  }
  return list;
}

Json operators_json(const Plan& plan, const Graph& graph) {
  Json list = Json::array();
  for (const Stage& stage : plan.training.stages) {
    const std::vector<PassTimes> times = node_times(stage);
    for (size_t i = 0; i < stage.forward.size(); ++i) {
      const Node& node = graph.node(stage.forward[i]);
      Json one{{"path", node.path},
               {"op", node.op->name},
               {"stage", stage.index},
               {"output", to_text(graph.value(node.outputs[0]).type)},
               {"flops", cost_of(graph, node).flops}};
      add_times(time_at(times, i), one);
      list.push_back(std::move(one));
    }
  }
  return list;
}

void add_layer_times(const Plan& plan, Json& document) {
  if (const auto& times = plan.layer_times) {
    document["layer_times"] = {{"file", times->file},     {"sha256", times->sha256}, {"rows", times->rows},
                               {"layers", times->layers}, {"ops", times->nodes},     {"all_ops", times->all_nodes}};
  }
}

Json layers_json(const Plan& plan, const Module& module, int depth) {
  Json list = Json::array();
  for (const LayerSummary& layer : list_layers(plan, module, depth)) {
    Json one{{"name", layer.name},
             {"output", layer.output},
             {"stage", layer.stage < 0 ? Json() : Json(layer.stage)},
             {"parameters", layer.parameters},
             {"forward_flops", layer.forward_flops}};
    add_times(layer.times, one);
    one["saved"] = layer.saved;
    if (layer.stage >= 0) {
      one["nodes"] = nodes_json(plan.training.stages[static_cast<size_t>(layer.stage)], layer.nodes, module.graph);
    }
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace xrun::planner
