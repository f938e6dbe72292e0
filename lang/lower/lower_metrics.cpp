// Lowers the metrics of `train` and its evaluations, expressions over the model and the data, to nodes of the graph.
// Tests: tests/lang/lower/lower_loss_test.cpp, tests/lang/lower/lower_train_test.cpp
#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/layouts/verification_spec.h"
#include "lang/lower/module_builder.h"
#include "lang/text/nearest.h"

namespace xrun::lang {

namespace {

// Whether an argument equals its default. A default that is computed from other arguments is treated as equal: two
// calls that differ in it also differ in those arguments.
bool is_default(const Ast& ast, const Param& param, const AttrValue& value) {
  if (!param.value.valid()) {
    return false;
  }
  const Expr& written = ast[param.value];
  const auto* word = std::get_if<std::string>(&value);
  const auto* flag = std::get_if<bool>(&value);
  const auto* whole = std::get_if<int64_t>(&value);
  const auto* real = std::get_if<double>(&value);
  switch (written.kind) {
    case ExprKind::kNumber: {
      const double number = ast.number(param.value).in_base();
      return (whole != nullptr && static_cast<double>(*whole) == number) || (real != nullptr && *real == number);
    }
    case ExprKind::kString:
      return word != nullptr && *word == ast.text(param.value);
    case ExprKind::kName:
      return word != nullptr && *word == written.name.text;
    case ExprKind::kBool:
      return flag != nullptr && *flag == written.flag;
    case ExprKind::kNone:
      return false;
    default:
      return true;
  }
}

// Equal calls share one node: a metric that is measured on three sources is computed by one node. If the last node is
// the only one since the graph had `nodes` nodes, and an earlier metric computes the same, the node is removed. Returns
// the value of the metric.
ValueId share_last_node(Evaluator& evaluator, ValueId made, size_t nodes) {
  const Graph& graph = evaluator.graph();
  if (graph.nodes.size() != nodes + 1 || graph.nodes.back().outputs.size() != 1) {
    return made;
  }
  const Node& last = graph.nodes.back();
  for (const ValueId known : graph.metrics) {
    const Node& node = graph.node(graph.value(known).producer);
    if (node.op == last.op && node.inputs == last.inputs && node.attrs == last.attrs) {
      evaluator.drop_last_node();
      return known;
    }
  }
  return made;
}

}  // namespace

void ModuleBuilder::lower_metrics(const SettingNode& node, Scope& scope, const SettingDef&) {
  const Ast* ast = node.ast;
  if (!node.has_value() || (*ast)[node.value].kind != ExprKind::kList) {
    Fix fix{"write metrics = [accuracy(logits, label)]"};
    if (node.has_value() && (*ast)[node.value].kind == ExprKind::kCall) {
      const Span call = (*ast)[node.value].span;
      fix = replacement("put it into a list", call, {"[{}]", ev_.sources().text(call)});
    }
    metrics_are_partial_ = true;
    ev_.refuse("XG0205", node.key_span, "`metrics` is a list of metrics", "not a list", std::move(fix));
    return;
  }
  std::vector<MetricSpec>& metrics = module_.train.metrics;
  for (const ExprId item : (*ast)[(*ast)[node.value].items]) {
    auto spec = metric(*ast, item, "", scope);
    if (!spec) {
      metrics_are_partial_ = true;
      continue;
    }
    // The results of evaluations have these names as keys, so each has to be unique.
    const std::string name = spec->name + differences(*spec);
    const auto taken = [&](const MetricSpec& known) { return known.name == spec->name; };
    spec->name = name;
    for (int next = 2; std::any_of(metrics.begin(), metrics.end(), taken); ++next) {
      spec->name = fmt::format("{}_{}", name, next);
    }
    metrics.push_back(std::move(*spec));
  }
}

// The arguments that differ from the defaults, as a part of a name: "_k5_val" for accuracy(logits, label, k=5,
// source=val).
std::string ModuleBuilder::differences(const MetricSpec& metric) {
  const Graph& graph = ev_.graph();
  const Node& node = graph.node(graph.value(metric.value).producer);
  if (node.op->name != metric.name) {
    return {};
  }
  constexpr size_t kLongest = 64;
  const Signature& signature = ev_.signatures().of(*node.op);
  std::string text;
  for (const Param& param : signature.params) {
    const AttrValue* value = node.attrs.find(param.name.text);
    if (value != nullptr && param.name.text != "source" && !is_default(*signature.ast, param, *value)) {
      const auto* word = std::get_if<std::string>(value);
      text += fmt::format("_{}{}", param.name.text, word != nullptr ? *word : xrun::to_text(*value));
    }
  }
  text += metric.source.empty() ? "" : "_" + metric.source;
  text.resize(std::min(text.size(), kLongest));
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return text;
}

void ModuleBuilder::lower_eval(const SettingNode& node, Scope& scope, const SettingDef& def) {
  lower_group(node, scope, def);
  if (!node.has_value() && !module_.train.eval_every) {
    module_.train.eval_every = TrainSpan{1, TrainSpan::kEpochs};
  }
}

void ModuleBuilder::lower_eval_metric(const SettingNode& node, Scope& scope, const SettingDef& def) {
  if (!node.has_value() || nearest(node.key, {"every"}) == "every") {
    unknown_setting(node, def.kind, def.group);
  } else if (auto spec = metric(*node.ast, node.value, node.key, scope)) {
    spec->span = node.span;
    module_.train.eval.push_back(std::move(*spec));
  } else {
    unmeasured_.insert(node.key);
  }
}

// Lowers a metric such as accuracy(logits, label, source=val) to a node of the graph, and the name of the source on
// which it is measured.
std::optional<MetricSpec> ModuleBuilder::metric(const Ast& ast, ExprId id, const std::string& name, Scope& scope) {
  const Expr& expr = ast[id];
  const std::optional<Callee> callee = metric_callee(ast, expr, scope);
  if (!callee) {
    return std::nullopt;
  }
  const Span name_span = ast[expr.lhs].name.span;
  MetricSpec spec{.name = name.empty() ? callee->name : name, .span = expr.span};
  std::vector<Arg> args;
  const bool good = read_source(ast, expr, *callee->op, spec, args);
  if (callee->op->availability == Availability::kNotYet && callee->op->infer == nullptr) {
    ev_.not_yet(name_span, {"the metric `{}`", callee->name},
                {"measure accuracy(logits, label) instead, or leave it out"});
    return std::nullopt;
  }
  const size_t nodes = ev_.graph().nodes.size();
  ev_.names().enter(*ev_.names().leaf("metrics", ""));
  const Datum value = ev_.eval_call(
      *callee, {.ast = &ast, .args = args, .span = expr.span, .name_span = name_span, .read_apart = "source"}, scope);
  ev_.names().leave();
  if (value.is_error() || !good) {
    return std::nullopt;
  }
  Graph& graph = ev_.graph();
  const ValueId made = value.kind == DatumKind::kTensor ? value.tensor : ValueId();
  const Node* const maker = made.valid() ? &graph.node(graph.value(made).producer) : nullptr;
  if (maker != nullptr && maker->op->name == "recall_at") {
    spec.neighbours = maker->attrs.integer("k", 1);
  } else if (!made.valid() ||
             (graph.value(made).type.dims != std::vector<int64_t>{kBatch} && !verification_of(graph, made))) {
    return ev_.refuse("XG0505", expr.span, {"`{}` is not a metric", callee->name}, "not one value a sample",
                      {"write accuracy(logits, label)"});
  }
  spec.value = share_last_node(ev_, made, nodes);
  graph.metrics.push_back(spec.value);
  return spec;
}

// Returns the operator that a metric calls, or reports an expression that is not such a call.
std::optional<Callee> ModuleBuilder::metric_callee(const Ast& ast, const Expr& expr, Scope& scope) {
  if (expr.kind == ExprKind::kError) {
    return std::nullopt;
  }
  if (expr.kind != ExprKind::kCall || ast[expr.lhs].kind != ExprKind::kName) {
    return ev_.refuse("XG0505", expr.span, "a metric is a call", "not a call", {"write accuracy(logits, label)"});
  }
  constexpr size_t kMostMetrics = 256;
  if (ev_.graph().metrics.size() >= kMostMetrics) {
    return ev_.refuse("XG0216", expr.span, {"a run has at most {} metrics", kMostMetrics}, "one too many",
                      {"leave it out, or measure it by `xrun eval`"});
  }
  const Name& op_name = ast[expr.lhs].name;
  if (refuse_unknown_op(op_name, "metric", ast, expr, scope)) {
    return std::nullopt;
  }
  const Call call{.ast = &ast, .args = ast[expr.args], .span = expr.span, .name_span = op_name.span};
  Callee callee = ev_.find_callee(std::span(&op_name, 1), call, scope);
  if (callee.kind == Callee::kUnknown) {
    return std::nullopt;
  }
  if (callee.kind != Callee::kOp) {
    return ev_.refuse("XG0505", expr.span, {"`{}` is not a metric", callee.name}, "not an operator",
                      {"write accuracy(logits, label)"});
  }
  return callee;
}

// Reads the argument `source`, which selects the samples, and puts the others into `args`. `source` is among them only
// if the operator requires it. Returns false after reporting a source that the data does not have.
bool ModuleBuilder::read_source(const Ast& ast, const Expr& expr, const OpDef& op, MetricSpec& spec,
                                std::vector<Arg>& args) {
  const Signature& signature = ev_.signatures().of(op);
  const auto own = std::find_if(signature.params.begin(), signature.params.end(),
                                [](const Param& param) { return param.name.text == "source"; });
  const bool needed = own != signature.params.end() && !own->value.valid();
  bool good = true;
  auto place = signature.params.begin();
  for (const Arg& arg : ast[expr.args]) {
    const bool names_source = arg.name ? arg.name.text == "source" : place == own && place != signature.params.end();
    place += !arg.name && place != signature.params.end() ? 1 : 0;
    if (!names_source || needed) {
      args.push_back(arg);
    }
    if (!names_source || ast[arg.value].kind == ExprKind::kNone) {
      continue;
    }
    spec.source = path_text(ast, arg.value);
    const auto known = names_of(sources_, [](const Source& source) { return source.spec.name; });
    if (std::find(known.begin(), known.end(), spec.source) == known.end() && !data_is_partial_ &&
        !broken_sources_.contains(spec.source)) {
      const Span at = ast[arg.value].span;
      ev_.refuse("XG0201", at, {"the data has no source `{}`", spec.source}, "unknown source",
                 did_you_mean(
                     spec.source, known, at,
                     {known.empty() ? "declare it in `data`: source test = ..."
                                    : fmt::format("name one of {}, or declare it in `data`", fmt::join(known, ", "))}));
      good = false;
    }
  }
  return good;
}

}  // namespace xrun::lang
