#include "graph/layouts/mixed_labels.h"

#include <algorithm>

namespace xrun {

bool mixes_samples(const CallSpec& stage) { return stage.name == "mixup" || stage.name == "cutmix"; }

const CallSpec* mixing_stage(const DataBinding& binding) {
  const auto stage = std::ranges::find_if(binding.stages, mixes_samples);
  return stage == binding.stages.end() ? nullptr : &*stage;
}

const DataBinding* mixed_binding(const DataSpec& data) {
  const auto mixes = [](const DataBinding& binding) { return mixing_stage(binding) != nullptr; };
  const auto binding = std::ranges::find_if(data.bindings, mixes);
  return binding == data.bindings.end() ? nullptr : &*binding;
}

bool draws_label(const CallSpec& stage) { return stage.args.flag("one_label", false); }

IdVector<ValueId, bool> values_of_loss(const Graph& graph) {
  IdVector<ValueId, bool> read(graph.values.size(), false);
  for (const LossTerm& term : graph.loss) {
    read[term.rows] = true;
  }
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    if (std::ranges::any_of(node.outputs, [&](ValueId output) { return read[output]; })) {
      for (const ValueId input : node.inputs) {
        read[input] = true;
      }
    }
  }
  return read;
}

std::string partner_label(std::string_view label) { return std::string(label) + ".partner"; }
std::string label_share(std::string_view input) { return std::string(input) + ".share"; }
std::string partner_share(std::string_view input) { return std::string(input) + ".partner_share"; }
std::string partner_weight(std::string_view label) { return std::string(label) + ".partner_class_weight"; }

}  // namespace xrun
