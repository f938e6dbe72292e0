// Tests: tests/graph/passes/passes_test.cpp
#include "graph/print.h"

#include <fmt/format.h>

namespace xrun {
namespace {

std::string id_text(ValueId id) { return "%" + std::to_string(id.index); }

std::string ids_text(const std::vector<ValueId>& ids) {
  std::string text;
  for (const ValueId id : ids) {
    text += (text.empty() ? "" : ", ") + id_text(id);
  }
  return text;
}

std::string init_text(const Init& init) {
  switch (init.kind) {
    case Init::kConstant:
      return "constant(" + to_text(AttrValue(init.value)) + ")";
    case Init::kNormal:
      return "normal(" + to_text(AttrValue(init.value)) + ")";
    case Init::kUniform:
      return "uniform(" + to_text(AttrValue(init.value)) + ")";
    case Init::kTruncNormal:
      return "trunc_normal(" + to_text(AttrValue(init.value)) + ")";
    case Init::kHeNormal:
      return "he_normal(" + std::to_string(init.fan_in) + ")";
  }
  return {};
}

std::string node_text(const Graph& graph, const Node& node, size_t index) {
  std::string text = "#" + std::to_string(index);
  if (node.phase == Phase::kBackward) {
    text += " back(#" + std::to_string(node.forward.index) + ")";
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    text +=
        (i > 0 ? ", " : " ") + id_text(node.outputs[i]) + ": " + text_with_layout(graph.value(node.outputs[i]).type);
  }
  text += fmt::format(" = {}({})", node.op->name, ids_text(node.inputs));
  if (!node.attrs.all().empty()) {
    text += " {" + to_text(node.attrs) + "}";
  }
  return text + " @" + node.path;
}

// Prints the named values and the metrics.
std::string names_text(const Graph& graph) {
  std::string out;
  for (const NamedValue& binding : graph.bindings) {
    out += fmt::format("bind {} {}\n", binding.name, id_text(binding.value));
  }
  for (const NamedValue& output : graph.outputs) {
    out += fmt::format("output {} {}\n", output.name, id_text(output.value));
  }
  for (const Head& head : graph.heads) {
    out += fmt::format("head {} #{}\n", head.name, head.node.index);
  }
  for (const ValueId metric : graph.metrics) {
    out += "metric " + id_text(metric) + "\n";
  }
  return out;
}

}  // namespace

std::string text_with_layout(const TensorType& type) {
  return to_text(type) + (type.is_channels_last() ? " channels_last" : "");
}

std::string print(const Graph& graph, const IdVector<NodeId, bool>* shown) {
  std::string out;
  for (const NamedValue& input : graph.inputs) {
    out += fmt::format("input {} {}: {}\n", id_text(input.value), input.name,
                       text_with_layout(graph.value(input.value).type));
  }
  for (const Parameter& parameter : graph.params) {
    out += fmt::format("{} {} {}: {} {}{}{}\n", parameter.trained ? "param" : "state", id_text(parameter.value),
                       parameter.name, to_text(graph.value(parameter.value).type), init_text(parameter.init),
                       parameter.head ? " head" : "",
                       parameter.frozen         ? " frozen"
                       : parameter.tied.valid() ? " tied"
                                                : "");
  }
  size_t count = 0;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (shown == nullptr || (*shown)[i]) {
      out += node_text(graph, graph.nodes[i], count++) + "\n";
    }
  }
  if (shown == nullptr) {
    out += names_text(graph);
  }
  for (const LossTerm& term : graph.loss) {
    out += "loss " + id_text(term.rows) + (term.factor == 1 ? "" : " by " + to_text(AttrValue(term.factor))) + "\n";
  }
  for (size_t i = 0; i < graph.param_grads.size(); ++i) {
    if (graph.param_grads[i].valid()) {
      out += fmt::format("grad {} {}\n", graph.params[i].name, id_text(graph.param_grads[i]));
    }
  }
  return out;
}

}  // namespace xrun
