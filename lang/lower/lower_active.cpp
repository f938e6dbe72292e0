// Lowers `active_classes`, which selects the classes of a sharded head for a step.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "lang/lower/module_builder.h"

namespace xrun::lang {
namespace {

// Whether the text is a number in percent, such as "101%", and not an expression.
bool is_percent(std::string_view written) {
  return written.ends_with('%') && written.find_first_not_of("-.0123456789_%") == std::string_view::npos;
}

}  // namespace

// Reads the amount of active classes: a fraction (up to 1) or a number (2 or more). A plain 1 may mean either and is
// rejected.
std::optional<double> ModuleBuilder::active_amount(const BoundArg& arg, std::string_view word) {
  const double amount = arg.value().as_double();
  const std::string_view written = ev_.sources().text(arg.value().span);
  if (amount == 1 && written.find_first_not_of(".0123456789_") == std::string_view::npos) {
    Diagnostic d =
        fault("XG0214", arg.value().span,
              {"`{}` cannot take a plain 1: a hundredth of the classes is 1%, and all of them are 100%", word},
              "may mean either", replacement("say which one you mean", arg.value().span, "1%"));
    d.fixes.push_back(replacement("say which one you mean", arg.value().span, "100%"));
    ev_.report(std::move(d));
    return std::nullopt;
  }
  const bool share = amount > 0 && amount <= 1;
  const bool count = amount >= 2 && amount == std::floor(amount) && !is_percent(written);
  if (!share && !(count && amount <= 0x1p31)) {
    const std::string what =
        is_percent(written) ? fmt::format("{:g} % of the", 100 * amount) : fmt::format("{:g}", amount);
    return ev_.refuse("XG0214", arg.value().span, {"`{}` cannot take {} classes", word, what}, "",
                      {"write a share of the classes, such as 10%, or a whole number of them, 2 or more"});
  }
  return amount;
}

std::optional<ActiveSpec> ModuleBuilder::active_spec(const SettingNode& node, Scope& scope, const SettingDef& def) {
  if (node.has_value() && (*node.ast)[node.value].kind == ExprKind::kNumber) {
    const Span at = value_span(node);
    return ev_.refuse("XG0205", at, "`active_classes` needs the way to choose the classes: all, sample or knn",
                      "only a number",
                      replacement("draw this many in each step", at, {"sample({})", ev_.sources().text(at)}));
  }
  const auto choice = choose(node, def);
  if (!choice) {
    return std::nullopt;
  }
  ActiveSpec active{.span = value_span(node)};
  if (choice->word == def.fallback) {
    return active;
  }
  const auto bound = arguments(node, *choice, scope);
  if (!bound) {
    return std::nullopt;
  }
  const auto arg = [&](std::string_view name) -> const BoundArg& {
    return *std::ranges::find_if(*bound, [&](const BoundArg& one) { return one.param->name.text == name; });
  };
  active.log_q = arg("log_q").value().flag;
  const bool knn = choice->word == "knn";
  active.kind = knn ? ActiveSpec::kKnn : ActiveSpec::kSample;
  const auto amount = active_amount(arg(knn ? "active" : "p"), choice->word);
  if (!amount) {
    return std::nullopt;
  }
  active.amount = *amount;
  if (knn) {
    const Datum& neighbours = arg("neighbours").value();
    const auto number = whole_number(neighbours);
    if (!number || *number < 2 || *number > kMostNeighbours) {
      return ev_.refuse("XG0214", neighbours.span, {"`neighbours` cannot be {}", to_text(neighbours)},
                        number && *number == 1 ? "a list begins with the class itself" : "",
                        {"write a number of 2 to {}", kMostNeighbours});
    }
    const Datum& span = arg("rebuild").value();
    const auto rebuild = train_span(span, "`rebuild` of `knn`", span.span);
    if (!rebuild) {
      return std::nullopt;
    }
    active.neighbours = *number;
    active.rebuild = *rebuild;
    active.exact = arg("exact").value().flag;
    const Datum& probes = arg("probes").value();
    const auto cells = whole_number(probes);
    if (!cells || *cells < 1 || *cells > kMostProbes) {
      return ev_.refuse("XG0214", probes.span, {"`probes` cannot be {}", to_text(probes)}, "",
                        {"write a number of 1 to {}", kMostProbes});
    }
    if (active.exact && *cells != kUsualProbes) {
      return ev_.refuse("XG0214", probes.span, "`probes` is for an approximate graph, and the exact one has no cells",
                        "", {"add exact=false, or leave `probes` out"});
    }
    active.probes = *cells;
  }
  return active;
}

void ModuleBuilder::lower_active_classes(const SettingNode& node, Scope& scope, const SettingDef& def) {
  const auto active = active_spec(node, scope, def);
  active_is_wrong_ = !active;
  module_.train.active_classes = active.value_or(ActiveSpec());
}

// Warns if most active classes of a step are the labels of its batch, so that few other classes are left to compare
// with.
void ModuleBuilder::warn_of_few_others(const std::string& head, int64_t classes) {
  const TrainSpec& train = module_.train;
  const ActiveSpec& active = train.active_classes;
  const int64_t chosen = active.of(classes);
  const int64_t labels = std::min(train.batch, classes);
  const int64_t others = chosen - labels;
  // There is no warning if all classes are active, or if labels are at most a quarter of the active classes.
  if (chosen == classes || 4 * others >= 3 * chosen) {
    return;
  }
  const std::string_view word = active.kind == ActiveSpec::kKnn ? "active" : "p";
  std::string help = "write active_classes = all";
  if (const int64_t enough = 4 * labels; enough < classes) {
    const int64_t percent = (100 * enough + classes - 1) / classes;
    help = active.amount <= 1 && percent < 100 ? fmt::format("write {}={}% or more", word, percent)
                                               : fmt::format("write {}={} or more", word, enough);
  }
  if (const int64_t batch = chosen / 4; batch >= 1 && !train.growth && train.grad_accumulation == 1) {
    help += fmt::format(", or batch = {} or less", batch);
  }
  ev_.report(warning("XG0519", active.span,
                     {"{} of the {} classes of `{}` are active, and a step of {} samples may have {} labels, which "
                      "leaves {} for other classes",
                      chosen, classes, head, train.batch, labels, others},
                     "accuracy falls if most of the active classes are labels of the step", {"{}", help})
                 .also(train.batch_span, "the batch"));
}

// Checks that the model has a head whose classes can be selected, and that the active classes of a step can include the
// classes of all its labels.
void ModuleBuilder::check_active_classes() {
  const TrainSpec& train = module_.train;
  const ActiveSpec& active = train.active_classes;
  const Graph& graph = ev_.graph();
  if (active.kind == ActiveSpec::kAll || train.loss.empty() || train.batch <= 0) {
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
    } else if (active.neighbours > classes) {
      ev_.refuse("XG0214", active.span,
                 {"`neighbours` is {}, but `{}` has {} classes", active.neighbours, head.name, classes},
                 "longer lists than there are classes",
                 classes < 2 ? Help("write active_classes = all") : Help("write neighbours={} or less", classes));
    } else if (active.of(classes) < needed) {
      ev_.refuse("XG0214", active.span,
                 {"{} of the {} classes of `{}` are active, but a step of {} samples may have {} labels",
                  active.of(classes), classes, head.name, train.batch, needed},
                 "too few classes", {"write a share or a number that makes {} classes or more", needed});
    } else if (!ev_.options().is_stored) {
      warn_of_few_others(head.name, classes);
    }
    if (active.kind == ActiveSpec::kKnn && !node.op->head(node.attrs).cosine) {
      ev_.refuse("XG0205", active.span,
                 {"`knn` finds the classes whose weights point in nearly the same direction, but the logits of `{}` "
                  "are not cosines",
                  head.name},
                 "", {"write head {} = cosine_classifier(x, classes), or active_classes = sample(10%)", head.name});
    }
  }
}

}  // namespace xrun::lang
