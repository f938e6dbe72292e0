// Settings that depend on the classes of the samples: the order of samples, and the weight of each class in the loss.
// Tests: tests/lang/lower/lower_train_test.cpp, tests/lang/check_golden_test.cpp
#include <algorithm>
#include <fmt/ranges.h>

#include "graph/layouts/class_rows.h"
#include "lang/lower/module_builder.h"
#include "lang/text/nearest.h"

namespace xrun::lang {
namespace {

// The inputs that losses over classes use as targets.
std::vector<NamedValue> targets_of_loss(const Graph& graph) {
  std::vector<NamedValue> targets;
  std::ranges::copy_if(graph.inputs, std::back_inserter(targets), [&](const NamedValue& input) {
    return graph.value(input.value).type.rank() == 1 && std::ranges::any_of(graph.nodes, [&](const Node& node) {
             return node.op->margin != nullptr && node.inputs[1] == input.value;
           });
  });
  return targets;
}

// The inputs with the labels of the samples: the targets of losses over classes. If no loss has such targets, these are
// the inputs of class numbers that the loss reads and the results of the model do not.
std::vector<NamedValue> labels_of_loss(const Graph& graph) {
  if (auto targets = targets_of_loss(graph); !targets.empty()) {
    return targets;
  }
  const std::vector<std::string> results = inputs_of_results(graph);
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
    return wanted[input.value] && type.dtype == DType::kI32 && type.rank() == 1 &&
           std::ranges::find(results, input.name) == results.end();
  });
  return labels;
}

}  // namespace

// Lowers `classes`. The name may also be that of an input; the setting is then a binding.
void ModuleBuilder::lower_classes(const SettingNode& node, Scope& scope, const SettingDef& def) {
  if (node.has_value()) {
    lower_binding(node, scope, def);
    return;
  }
  for (const SettingNode& child : node.children) {
    if (child.to.valid()) {
      lower_moved_class(child, "");
      continue;
    }
    if (child.has_value()) {
      refuse_class(child);
      continue;
    }
    for (const SettingNode& one : child.children) {
      one.to.valid() ? lower_moved_class(one, child.key) : refuse_class(one);
    }
  }
}

void ModuleBuilder::refuse_class(const SettingNode& node) {
  const std::string now = node.has_value() ? path_text(*node.ast, node.value) : "";
  ev_.refuse(
      "XG0210", node.key_span, {"`{}` is not a setting of `classes`", node.key}, "not a moved class",
      {"write a line for each class whose name has changed: moved {} -> {}", node.key, now.empty() ? "NEW" : now});
}

void ModuleBuilder::lower_moved_class(const SettingNode& node, const std::string& input) {
  const MovedClass moved{path_text(*node.ast, node.value), path_text(*node.ast, node.to), input, node.span};
  const auto refuse = [&](Text message, Text label, Help help) {
    ev_.refuse("XG0226", node.span, std::move(message), std::move(label), std::move(help));
  };
  for (const MovedClass& other : module_.data.moved_classes) {
    if (other.input == input && other.to == moved.to) {
      refuse({"the classes `{}` and `{}` would both be `{}`", other.from, moved.from, moved.to},
             "a second class of this name", {"leave one of the lines out, or give the classes two names"});
      return;
    }
  }
  if (moved.from.empty() || moved.to.empty() || moved.from == moved.to) {
    refuse({"the class `{}` moves to `{}`", moved.from, moved.to}, "not another name",
           {"write its old name and its new one, or leave the line out"});
    return;
  }
  // Follows the chain of moves from the new name, so that a cycle is found.
  std::string name = moved.to;
  for (size_t i = 0; i <= module_.data.moved_classes.size() && name != moved.from; ++i) {
    const auto next = std::ranges::find_if(module_.data.moved_classes, [&](const MovedClass& other) {
      return other.from == name && (other.input.empty() || input.empty() || other.input == input);
    });
    name = next == module_.data.moved_classes.end() ? name : next->to;
  }
  if (name == moved.from) {
    refuse({"the class `{}` moves back to itself", moved.from}, "ends where it began",
           {"leave these moves out: a class that has its first name again needs no move"});
    return;
  }
  module_.data.moved_classes.push_back(moved);
}

// Checks that each INPUT in `classes INPUT { ... }` is an input of class numbers (XG0226). REQUIRES: the inputs of the
// loss are known.
void ModuleBuilder::check_moved_classes() {
  const Graph& graph = ev_.graph();
  std::vector<std::string> known;
  for (const NamedValue& input : graph.inputs) {
    if (graph.value(input.value).type.classes > 0) {
      known.push_back(input.name);
    }
  }
  for (const MovedClass& moved : module_.data.moved_classes) {
    if (!moved.input.empty() && !known.empty() && std::ranges::find(known, moved.input) == known.end()) {
      ev_.refuse("XG0226", moved.span, {"`{}` is not an input of class numbers", moved.input},
                 {"the class moves in `{}`", moved.input},
                 {"name one of {}: classes {} {{ ... }}", fmt::join(known, ", "), known.front()});
    }
  }
}

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

// Finds the labels for a balanced order and for class weights: the loss has to depend on exactly one input of labels.
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
                                           : has_positions ? "labels of several positions, or no labels"
                                                           : "no class numbers"},
             {labels.empty() ? "leave it out, or take a loss with labels: softmax_ce(logits, label)"
                             : "leave it out, or take a loss that uses one input of labels"});
}

}  // namespace xrun::lang
