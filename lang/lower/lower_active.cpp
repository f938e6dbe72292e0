// Which classes of a sharded head take part in a step: `active_classes`.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "lang/lower/module_builder.h"

namespace xrun::lang {

// A share of the classes, or how many.
std::optional<double> ModuleBuilder::active_amount(const BoundArg& arg, std::string_view word) {
  const double amount = arg.value().as_double();
  const bool share = amount > 0 && amount <= 1;
  const bool count = amount >= 2 && amount == std::floor(amount);
  if (!share && !(count && amount <= 0x1p31)) {
    return ev_.refuse("XG0214", arg.span, {"`{}` cannot take {:g} classes", word, amount}, "",
                      {"write a share of the classes, such as 10%, or a whole number of them, 2 or more"});
  }
  return amount;
}

void ModuleBuilder::lower_active_classes(const SettingNode& node, Scope& scope, const SettingDef& def) {
  const auto choice = choose(node, def);
  if (!choice || choice->word == def.fallback) {
    return;
  }
  const auto bound = arguments(node, *choice, scope);
  if (!bound) {
    return;
  }
  ActiveSpec active{.span = value_span(node)};
  const auto arg = [&](std::string_view name) -> const BoundArg& {
    return *std::ranges::find_if(*bound, [&](const BoundArg& one) { return one.param->name.text == name; });
  };
  active.log_q = arg("log_q").value().flag;
  const bool knn = choice->word == "knn";
  active.kind = knn ? ActiveSpec::kKnn : ActiveSpec::kSample;
  const auto amount = active_amount(arg(knn ? "active" : "p"), choice->word);
  if (!amount) {
    return;
  }
  active.amount = *amount;
  if (knn) {
    const BoundArg& neighbours = arg("neighbours");
    const auto number = whole_number(neighbours.value());
    if (!number || *number < 1 || *number > kMostNeighbours) {
      ev_.refuse("XG0214", neighbours.span, {"`neighbours` cannot be {}", to_text(neighbours.value())}, "",
                 {"write a number of 1 to {}", kMostNeighbours});
      return;
    }
    const auto rebuild = train_span(arg("rebuild").value(), "`rebuild` of `knn`", arg("rebuild").span);
    if (!rebuild) {
      return;
    }
    active.neighbours = *number;
    active.rebuild = *rebuild;
    active.exact = arg("exact").value().flag;
  }
  module_.train.active_classes = active;
}

// That the model has classes to select, and that a step has room for those of all its labels.
void ModuleBuilder::check_active_classes() {
  const TrainSpec& train = module_.train;
  const ActiveSpec& active = train.active_classes;
  const Graph& graph = ev_.graph();
  if (active.kind == ActiveSpec::kAll || !train.loss.valid() || train.batch <= 0) {
    return;
  }
  if (graph.heads.empty()) {
    ev_.refuse("XG0205", active.span, "the classes of a step are selected from a `head`, and the model has none", "",
               {"write head id = classifier(x, classes) in the model, or leave `active_classes` out"});
    return;
  }
  const TrainSpan& run = train.duration;
  if (active.kind == ActiveSpec::kKnn && train.init_checkpoint.empty() && active.rebuild.unit == run.unit &&
      active.rebuild.amount >= run.amount) {
    ev_.refuse("XG0214", active.span,
               {"the first graph is built after {}, when the run of {} is over", to_text(active.rebuild), to_text(run)},
               "no step would use a graph", {"write a shorter `rebuild`, such as 0.25 epochs, or sample(10%)"});
  }
  for (const Head& head : graph.heads) {
    const Node& node = graph.node(head.node);
    const int64_t classes = graph.value(node.inputs[1]).type.dims[0];
    const int64_t needed = std::min(train.batch, classes);
    if (active.amount > 1 && active.amount > static_cast<double>(classes)) {
      ev_.refuse("XG0214", active.span, {"`{}` has {} classes, not {:.0f}", head.name, classes, active.amount},
                 "too many classes", {"write a smaller number, a share such as 10%, or active_classes = all"});
    } else if (active.of(classes) < needed) {
      ev_.refuse("XG0214", active.span,
                 {"{} of the {} classes of `{}` are active, but a step of {} samples may have {} labels",
                  active.of(classes), classes, head.name, train.batch, needed},
                 "too few classes", {"write a share or a number that makes {} classes or more", needed});
    }
    if (active.kind == ActiveSpec::kKnn && !node.op->head(node.attrs).cosine) {
      ev_.refuse(
          "XG0205", active.span,
          {"`knn` finds the classes whose weights point in nearly the same direction, but the logits of `{}` are "
           "no cosines",
           head.name},
          "", {"write head {} = cosine_classifier(x, classes), or active_classes = sample(10%)", head.name});
    }
  }
}

}  // namespace xrun::lang
