#include "graph/layouts/partial_labels.h"

#include <algorithm>

namespace xrun {
namespace {

LabelsRead both(const LabelsRead& a, const LabelsRead& b) {
  if (a.count == LabelsRead::kNone || a == b) {
    return b;
  }
  return b.count == LabelsRead::kNone ? a : LabelsRead{.count = LabelsRead::kSeveral, .label = {}};
}

}  // namespace

bool is_partial(const DataSpec& data, std::string_view input) {
  const auto binding = std::ranges::find(data.bindings, input, &DataBinding::target);
  return binding != data.bindings.end() &&
         std::ranges::find(binding->stages, "ignore", &CallSpec::name) != binding->stages.end();
}

std::vector<NamedValue> partial_labels(const Graph& graph, const DataSpec& data) {
  std::vector<NamedValue> labels;
  std::ranges::copy_if(graph.inputs, std::back_inserter(labels),
                       [&](const NamedValue& input) { return is_partial(data, input.name); });
  return labels;
}

IdVector<ValueId, LabelsRead> labels_read(const Graph& graph, const std::vector<NamedValue>& partial) {
  IdVector<ValueId, LabelsRead> read(graph.values.size(), LabelsRead());
  for (const NamedValue& label : partial) {
    read[label.value] = {.count = LabelsRead::kOne, .label = label.value};
  }
  for (const Node& node : graph.nodes) {
    LabelsRead all;
    for (const ValueId input : node.inputs) {
      all = both(all, read[input]);
    }
    for (const ValueId output : node.outputs) {
      read[output] = all;
    }
  }
  return read;
}

std::string label_of(const Graph& graph, const DataSpec& data, ValueId value) {
  const std::vector<NamedValue> partial = partial_labels(graph, data);
  if (partial.empty()) {
    return {};
  }
  const LabelsRead read = labels_read(graph, partial)[value];
  const auto label = std::ranges::find(partial, read.label, &NamedValue::value);
  return label == partial.end() ? std::string() : label->name;
}

std::string labelled_input(std::string_view label) { return std::string(label) + ".labelled"; }
std::string row_factor_input(std::string_view label) { return std::string(label) + ".row_factor"; }

}  // namespace xrun
