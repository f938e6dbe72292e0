// Checks bindings that mix samples by `mixup` and `cutmix` (graph/layouts/mixed_labels.h).
// Tests: tests/lang/lower/lower_mix_test.cpp
#include <algorithm>
#include <fmt/format.h>

#include "graph/layouts/mixed_labels.h"
#include "graph/layouts/partial_labels.h"
#include "lang/lower/module_builder.h"

namespace xrun::lang {
namespace {

bool is_loss_of_label(const OpDef& op) { return op.margin != nullptr; }

}  // namespace

// Checks that the stages which mix samples are the last ones of the binding, and agree with each other.
void ModuleBuilder::check_mixing_stages(const DataBinding& binding) {
  const CallSpec& first = *mixing_stage(binding);
  for (auto stage = binding.stages.begin() + (&first - binding.stages.data()) + 1; stage != binding.stages.end();
       ++stage) {
    if (!mixes_samples(*stage)) {
      ev_.report(fault("XG0409", stage->span,
                       {"`{}` comes after `{}`, which mixes finished rows", stage->name, first.name},
                       {"after `{}`", first.name}, {"put it before `{}`", first.name})
                     .also(first.span, "this mixes the samples of a batch"));
    } else if (stage->name == first.name) {
      ev_.report(fault("XG0409", stage->span, {"`{}` occurs twice", first.name}, "a second time", {"leave one out"})
                     .also(first.span, "the first time"));
    } else if (draws_label(*stage) != draws_label(first)) {
      ev_.report(fault("XG0434", stage->span, {"only one of `{}` and `{}` has one_label=true", first.name, stage->name},
                       "rows of a batch have either one label or two", {"give both the same `one_label`"})
                     .also(first.span, "the other one"));
    }
  }
}

// Checks what the loss reads of rows that are mixed by `stage`: the mixed input, and labels of losses. Returns the
// number of labels.
int ModuleBuilder::check_readers_of_mixed(const DataBinding& binding, const CallSpec& stage) {
  const Graph& graph = ev_.graph();
  const auto read = values_of_loss(graph);
  const auto refuse = [&](Span at, Text message, Text label, Help help) {
    ev_.report(fault("XG0434", at, std::move(message), std::move(label), std::move(help))
                   .also(stage.span, "this mixes samples"));
  };
  const auto is_measured = [&](ValueId label) {
    return std::ranges::any_of(module_.train.metrics, [&](const MetricSpec& metric) {
      const NodeId made = graph.value(metric.value).producer;
      return made.valid() && std::ranges::find(graph.node(made).inputs, label) != graph.node(made).inputs.end();
    });
  };
  int labels = 0;
  for (const NamedValue& input : graph.inputs) {
    if ((read[input.value] || is_measured(input.value)) && is_partial(module_.data, input.name)) {
      ev_.refuse("XG0434", stage.span,
                 {"`{}` needs two labels for a row, but some samples have no `{}`", stage.name, input.name},
                 "mixes samples with and without a label", {"leave out `{}`, or `ignore` of the label", stage.name});
    }
    const auto bound = std::ranges::find(module_.data.bindings, input.name, &DataBinding::target);
    const bool mixes = bound != module_.data.bindings.end() && mixing_stage(*bound) != nullptr;
    if (!read[input.value] || mixes) {
      continue;  // a second mixed input was reported
    }
    if (graph.value(input.value).type.classes == 0) {
      ev_.refuse(
          "XG0434", stage.span, {"the loss also reads `{}`, which `{}` does not mix", input.name, stage.name},
          {"mixes only `{}`", binding.target},
          {"leave `{}` out, or train without the input `{}`: a mixed row has the labels of two samples, but other "
           "values of only one",
           stage.name, input.name});
      continue;
    }
    ++labels;
    for (const Node& node : graph.nodes) {
      const bool takes = std::ranges::find(node.inputs, input.value) != node.inputs.end();
      const bool is_read = !node.outputs.empty() && read[node.outputs[0]];
      if (takes && is_read && !is_loss_of_label(*node.op) && !draws_label(stage)) {
        refuse(node.span, {"`{}` reads `{}`, of which a mixed row has two", node.op->name, input.name},
               "only losses can compare a row with two labels", {"leave `{}` out", stage.name});
      }
    }
  }
  return labels;
}

// Checks that no loss of a sharded head gets two labels for a row, and that nothing with own weights is computed from
// a loss of two labels.
void ModuleBuilder::check_losses_of_mixed(const CallSpec& stage) {
  const Graph& graph = ev_.graph();
  const auto read = values_of_loss(graph);
  IdVector<ValueId, bool> of_label(graph.values.size(), false);
  for (const Node& node : graph.nodes) {
    const bool is_loss = is_loss_of_label(*node.op);
    const bool any = is_loss || std::ranges::any_of(node.inputs, [&](ValueId input) { return of_label[input]; });
    if (!any || node.outputs.empty() || !read[node.outputs[0]]) {
      continue;
    }
    of_label[node.outputs[0]] = true;
    const NodeId logits = graph.value(node.inputs[0]).producer;
    if (is_loss && logits.valid() && graph.node(logits).op->head != nullptr) {
      ev_.report(
          fault("XG0434", stage.span,
                {"`{}` gives each row two labels, but the sharded head compares a row with one class", stage.name},
                "two labels for a row",
                {"write `one_label=true`, which gives a row one of the two labels, drawn with their shares as "
                 "probabilities; or compute the logits with `linear` in place of the head"})
              .also(node.span, "the loss of the head"));
    } else if (!is_loss && std::ssize(node.inputs) != node.operands) {
      ev_.report(fault("XG0434", node.span, {"`{}` has weights and reads a loss of mixed rows", node.op->name},
                       "computed once for each of the two labels of a row", {"leave `{}` out", stage.name})
                     .also(stage.span, "this mixes samples"));
    }
  }
}

// Checks bindings that mix samples, and what a training reads of them.
void ModuleBuilder::check_mixed_samples() {
  const DataBinding* first = mixed_binding(module_.data);
  if (first == nullptr) {
    return;
  }
  const CallSpec& stage = *mixing_stage(*first);
  for (const DataBinding& binding : module_.data.bindings) {
    if (const CallSpec* other = mixing_stage(binding)) {
      check_mixing_stages(binding);
      if (&binding != first) {
        ev_.report(fault("XG0434", other->span, {"both `{}` and `{}` are mixed", first->target, binding.target},
                         "a second mixed input", {"mix only one of them: the labels of a row have one pair of shares"})
                       .also(stage.span, "the first one"));
      }
    }
  }
  const auto& inputs = ev_.graph().inputs;
  const auto is_read = std::ranges::find(inputs, first->target, &NamedValue::name) != inputs.end();
  const TrainSpec& train = module_.train;
  if (train.loss.empty() || !is_read) {
    return;  // there is no training, or an unused binding was reported
  }
  if (train.unit() == 1) {
    ev_.report(fault("XG0434", stage.span,
                     {"a batch of one sample has no other sample that `{}` could mix", stage.name}, "changes nothing",
                     {"take a larger batch, or leave `{}` out", stage.name})
                   .also(train.batch_span, "the batch"));
  }
  const int labels = check_readers_of_mixed(*first, stage);
  if (labels == 0) {
    ev_.refuse("XG0434", stage.span,
               {"`{}` mixes samples of two classes, but the loss compares with no class", stage.name}, "no label",
               {"leave it out, or train with a loss of labels: softmax_ce(logits, label)"});
  }
  if (!draws_label(stage)) {
    check_losses_of_mixed(stage);
  }
}

}  // namespace xrun::lang
