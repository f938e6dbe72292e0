// Checks labels that some samples lack, declared by the stage `ignore` of their bindings.
#include <algorithm>
#include <fmt/format.h>

#include "graph/layouts/partial_labels.h"
#include "lang/lower/module_builder.h"

namespace xrun::lang {
namespace {

const CallSpec& ignore_of(const DataBinding& binding) {
  return *std::ranges::find(binding.stages, "ignore", &CallSpec::name);
}

bool reads_labels(const OpDef& op) { return op.margin != nullptr || op.metric_k != nullptr || op.name == "recall_at"; }

}  // namespace

// Checks that `ignore` comes before the stages that make classes. After these, a value no longer equals the number in
// the data that `ignore` names.
void ModuleBuilder::check_order_of_ignore(const DataBinding& binding) {
  const auto index = std::ranges::find(binding.stages, "as_index", &CallSpec::name);
  const auto late = std::find_if(index, binding.stages.end(), [](const CallSpec& one) { return one.name == "ignore"; });
  if (late != binding.stages.end()) {
    ev_.report(fault("XG0409", late->span, "`ignore` names cells of the data, and here they are classes already",
                     "after `as_index`", {"put it before `as_index`"})
                   .also(index->span, "this makes classes of them"));
  }
}

// Checks that only losses and metrics read a partial label: only these handle samples without a label.
void ModuleBuilder::check_readers_of_partial(const DataBinding& binding, ValueId input) {
  const Graph& graph = ev_.graph();
  const Span ignore = ignore_of(binding).span;
  if (graph.value(input).type.classes == 0) {
    ev_.refuse("XG0424", ignore,
               {"`ignore` is for labels, and `{}` is {}", binding.target, to_text(graph.value(input).type)},
               "numbers, not classes", {"leave it out; an input needs a value in each sample"});
    return;
  }
  for (const Node& node : graph.nodes) {
    if (std::ranges::find(node.inputs, input) != node.inputs.end() && !reads_labels(*node.op)) {
      ev_.report(fault("XG0424", node.span,
                       {"`{}` reads `{}`, which some samples do not have", node.op->name, binding.target},
                       "only losses and metrics leave such samples out",
                       {"bind an input of its own without `ignore`, in which each sample has a class"})
                     .also(ignore, "samples without it"));
      return;
    }
  }
}

void ModuleBuilder::check_partial_labels() {
  const Graph& graph = ev_.graph();
  for (const DataBinding& binding : module_.data.bindings) {
    const auto input = std::ranges::find(graph.inputs, binding.target, &NamedValue::name);
    if (is_partial(module_.data, binding.target)) {
      check_order_of_ignore(binding);
      if (input != graph.inputs.end()) {
        check_readers_of_partial(binding, input->value);
      }
    }
  }
  const auto read = labels_read(graph, partial_labels(graph, module_.data));
  for (const std::vector<MetricSpec>* metrics : {&module_.train.metrics, &module_.train.eval}) {
    for (const MetricSpec& metric : *metrics) {
      if (read[metric.value].count == LabelsRead::kSeveral) {
        ev_.refuse("XG0424", metric.span, "this metric reads several labels that some samples do not have",
                   "it cannot leave out the samples of one of them", {"measure each label by a metric of its own"});
      }
    }
  }
}

}  // namespace xrun::lang
