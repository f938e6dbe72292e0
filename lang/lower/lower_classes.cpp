// Settings that depend on the classes of the samples: their order, and the weight of each class in the loss.
#include <algorithm>
#include <fmt/format.h>

#include "lang/lower/module_builder.h"
#include "lang/nearest.h"

namespace xrun::lang {
namespace {

// The inputs with class numbers that the loss depends on.
std::vector<NamedValue> labels_of_loss(const Graph& graph) {
  IdVector<ValueId, bool> wanted(graph.values.size(), false);
  for (const LossTerm& term : graph.loss) {
    wanted[term.rows] = true;
  }
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    if (std::ranges::any_of(node.outputs, [&](ValueId id) { return wanted[id]; })) {
      std::ranges::for_each(node.inputs, [&](ValueId id) { wanted[id] = true; });
    }
  }
  std::vector<NamedValue> labels;
  std::ranges::copy_if(graph.inputs, std::back_inserter(labels), [&](const NamedValue& input) {
    const TensorType& type = graph.value(input.value).type;
    return wanted[input.value] && type.dtype == DType::kI32 && type.rank() == 1;
  });
  return labels;
}

}  // namespace

void ModuleBuilder::lower_order(const SettingNode& node, Scope&, const SettingDef& def) {
  if (const auto choice = choose(node, def)) {
    module_.train.order = static_cast<SampleOrder>(choice->index);
  }
}

void ModuleBuilder::lower_class_weights(const SettingNode& node, Scope& scope, const SettingDef& def) {
  const auto choice = choose(node, def);
  if (!choice || choice->word == def.fallback) {
    return;
  }
  ClassWeightsSpec& weights = module_.train.class_weights;
  weights.span = value_span(node);
  if (choice->word != "csv") {
    weights.kind = ClassWeightsSpec::kInverseFrequency;
    return;
  }
  const auto bound = arguments(node, *choice, scope);
  if (!bound) {
    return;
  }
  weights.kind = ClassWeightsSpec::kCsv;
  weights.path = bound->front().value().text;
  weights.directory = directory_of(node);
  if (weights.path.empty()) {
    ev_.refuse("XG0214", bound->front().span, "`csv` cannot be \"\"", "no path",
               {"name a table of classes and weights, class_weights = csv(\"w.csv\"), or leave `class_weights` out"});
  }
}

// Finds the labels that both settings use: the only ones that the loss depends on.
void ModuleBuilder::find_class_input(const Settings& settings) {
  TrainSpec& train = module_.train;
  const char* key = train.class_weights.kind != ClassWeightsSpec::kNone ? "class_weights"
                    : train.order == SampleOrder::kBalanced             ? "order"
                                                                        : nullptr;
  if (key == nullptr || train.loss.empty()) {
    return;
  }
  const std::vector<NamedValue> labels = labels_of_loss(ev_.graph());
  if (labels.size() == 1) {
    train.class_input = labels[0].name;
    return;
  }
  const std::string names = listed(labels, [](const NamedValue& label) { return fmt::format("`{}`", label.name); });
  const SettingNode& node = *settings.root.find(key);
  const std::string_view value = ev_.sources().text(value_span(node));
  const bool has_positions = std::ranges::any_of(ev_.graph().inputs, [&](const NamedValue& input) {
    const TensorType& type = ev_.graph().value(input.value).type;
    return type.classes > 0 && type.rank() > 1;
  });
  ev_.refuse("XG0510", value_span(node), {"`{} = {}` needs to know the class of each sample", key, value},
             {"the loss compares with {}", !labels.empty() ? names
                                           : has_positions ? "labels of several positions, or none"
                                                           : "no class numbers"},
             {labels.empty() ? "leave it out, or take a loss with labels: softmax_ce(logits, label)"
                             : "leave it out, or take a loss with one kind of labels"});
}

}  // namespace xrun::lang
