// Tests: tests/cases/command_words_test.cpp
#include "planner/report/model_summary.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <span>

#include "graph/cost.h"
#include "planner/report/json.h"
#include "planner/report/layers.h"
#include "planner/report/table.h"

namespace xrun::planner {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kModelVersion = 1;

ModelLayer total_of(const std::vector<ModelLayer>& layers) {
  ModelLayer total{.name = "model", .output = ""};
  for (const ModelLayer& layer : layers) {
    total.parameters += layer.parameters;
    total.flops += layer.flops;
    total.activations += layer.activations;
  }
  return total;
}

std::string values_text(const Graph& graph, std::span<const NamedValue> values) {
  std::string text;
  for (const NamedValue& one : values) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", one.name, to_text(graph.value(one.value).type));
  }
  return text.empty() ? "none" : text;
}

Json values_json(const Graph& graph, std::span<const NamedValue> values) {
  Json list = Json::array();
  for (const NamedValue& one : values) {
    list.push_back({{"name", one.name}, {"type", to_text(graph.value(one.value).type)}});
  }
  return list;
}

}  // namespace

std::vector<ModelLayer> list_model_layers(const Graph& graph, int depth) {
  std::vector<ModelLayer> layers;
  std::vector<bool> counted(graph.params.size(), false);
  for (const Node& node : graph.nodes) {
    const std::string name = layer_name(node.path, depth);
    if (layers.empty() || layers.back().name != name) {
      layers.push_back({.name = name, .output = ""});
    }
    ModelLayer& layer = layers.back();
    layer.output = dims_text(graph.value(node.outputs[0]).type);
    layer.flops += cost_of(graph, node).flops;
    for (int i = 0; i < node.op->visible_outputs && i < std::ssize(node.outputs); ++i) {
      layer.activations += graph.value(node.outputs[static_cast<size_t>(i)]).type.row_elements();
    }
    for (const ValueId input : node.inputs) {
      const ParamId param = graph.value(input).param;
      if (param.valid() && graph.param(param).trained && !counted[static_cast<size_t>(param.index)]) {
        counted[static_cast<size_t>(param.index)] = true;
        layer.parameters += graph.value(input).type.row_elements();
      }
    }
  }
  return layers;
}

std::string model_text(const Module& module, int depth) {
  const Graph& graph = module.graph;
  const std::vector<ModelLayer> layers = list_model_layers(graph, depth);
  TextTable table({Align::kLeft, Align::kLeft, Align::kRight, Align::kRight, Align::kRight});
  table.add({"layer", "output", "parameters", "MFLOP", "activations"});
  const auto add = [&](const ModelLayer& layer) {
    table.add({layer.name, layer.output, layer.parameters > 0 ? format_count(layer.parameters) : "",
               fmt::format("{:.3f}", layer.flops / 1e6), format_count(layer.activations)});
  };
  for (const ModelLayer& layer : layers) {
    add(layer);
  }
  table.add_rule();
  add(total_of(layers));
  return fmt::format("{}   {} operators\n  input   {}\n  output  {}\n\n", module.model,
                     format_count(static_cast<int64_t>(graph.nodes.size())), values_text(graph, graph.inputs),
                     values_text(graph, graph.outputs)) +
         table.text("") +
         "MFLOP and activations: of the forward pass, of one sample; an activation is a number that an operator "
         "gives\n";
}

std::string model_json(const Module& module, int depth) {
  const Graph& graph = module.graph;
  const std::vector<ModelLayer> layers = list_model_layers(graph, depth);
  const ModelLayer total = total_of(layers);
  Json list = Json::array();
  for (const ModelLayer& layer : layers) {
    list.push_back({{"name", layer.name},
                    {"output", layer.output},
                    {"parameters", layer.parameters},
                    {"flops", layer.flops},
                    {"activations", layer.activations}});
  }
  return document_text({{"v", kModelVersion},
                        {"model", module.model},
                        {"inputs", values_json(graph, graph.inputs)},
                        {"outputs", values_json(graph, graph.outputs)},
                        {"parameters", total.parameters},
                        {"flops", total.flops},
                        {"activations", total.activations},
                        {"layers", std::move(list)}});
}

}  // namespace xrun::planner
