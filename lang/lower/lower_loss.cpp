// Lowers the loss and the metrics of `train`, expressions over the model and the data, to nodes of the graph.
#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/layouts/head_values.h"
#include "graph/layouts/partial_labels.h"
#include "graph/passes/split_loss.h"
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

// The name of the expression: a bare name, the name of a call, or the name of the last stage of a pipeline; null for
// any other expression.
const Name* called_name(const Ast& ast, const Expr& expr) {
  if (expr.kind == ExprKind::kName) {
    return &expr.name;
  }
  if (expr.kind == ExprKind::kCall && ast[expr.lhs].kind == ExprKind::kName) {
    return &ast[expr.lhs].name;
  }
  if (expr.kind == ExprKind::kPipe) {
    const Stage& last = ast[expr.stages].back();
    return last.kind == StageKind::kCall && last.path.count == 1 ? &ast[last.path][0] : nullptr;
  }
  return nullptr;
}

bool is_loss(const OpDef& op) { return op.is_word() && op.group == "losses"; }
bool is_metric(const OpDef& op) { return op.signature.find("source: source") != std::string_view::npos; }

// The call that the expression is, or the last stage of a pipeline as a call.
Call call_of(const Ast& ast, const Expr& expr, const Name& name) {
  Call call{.ast = &ast, .span = expr.span, .name_span = name.span};
  if (expr.kind == ExprKind::kPipe) {
    call.args = ast[ast[expr.stages].back().args];
    call.span = ast[expr.stages].back().span;
  } else if (expr.kind == ExprKind::kCall) {
    call.args = ast[expr.args];
  }
  return call;
}

}  // namespace

bool ModuleBuilder::is_callable(std::string_view name, const Scope& scope) const {
  return scope.file->find(name) || scope.file->is_missing(name) || is_constant_function(name) ||
         ev_.find_op(name) != nullptr;
}

// Reports an unknown name of a loss or a metric, and lists the known ones.
bool ModuleBuilder::refuse_unknown_op(const Name& name, std::string_view what, const Ast& ast, const Expr& expr,
                                      Scope& scope) {
  if (is_callable(name.text, scope) || scope.find(name.text) != nullptr) {
    return false;
  }
  const OpRegistry& ops = *ev_.options().ops;
  const auto is_of_kind = what == "loss" ? is_loss : is_metric;
  const OpDef* meant = foreign_op(ops, name.text);
  std::vector<std::string> known;
  for (const OpDef* op : ops.all()) {
    if (is_of_kind(*op) && op->availability == Availability::kReady) {
      known.emplace_back(op->name);
    }
  }
  const std::string list = listed(known, [](const std::string& one) { return fmt::format("`{}`", one); });
  ev_.refuse("XG0201", name.span, {"there is no {} `{}`", what, name.text}, {"unknown {}", what},
             meant != nullptr && is_of_kind(*meant)
                 ? Help(ev_.in_our_words(*meant, call_of(ast, expr, name),
                                         fmt::format("`{}` is `{}` here", name.text, meant->name)))
                 : Help(our_name(NameKind::kMetric, name.text, known, name.span,
                                 {"take one of {}, or compute it with a block of your own", list})));
  return true;
}

void ModuleBuilder::lower_loss(const SettingNode& node, Scope& scope) {
  if (!node.has_value()) {
    ev_.refuse("XG0205", node.key_span, "`loss` is an expression, not a group", "a group",
               {"write loss = softmax_ce(logits, label)"});
    return;
  }
  const Expr& written = (*node.ast)[node.value];
  const Name* name = called_name(*node.ast, written);
  // A bare name may be a binding, so it is reported only if other frameworks have a loss of that name.
  const auto means_loss = [&](std::string_view word) {
    const OpDef* meant = foreign_op(*ev_.options().ops, word);
    return meant != nullptr && is_loss(*meant);
  };
  const bool is_call = name != nullptr && (written.kind != ExprKind::kName || means_loss(name->text));
  if (is_call && refuse_unknown_op(*name, "loss", *node.ast, written, scope)) {
    return;
  }
  ev_.names().enter(*ev_.names().leaf("loss", ""));
  const Datum value = ev_.eval(*node.ast, node.value, scope);
  ev_.names().leave();
  if (value.is_error()) {
    return;
  }
  const Span at = (*node.ast)[node.value].span;
  if (value.kind != DatumKind::kTensor) {
    ev_.refuse("XG0504", at, {"a loss is a tensor with one value a sample, not {}", kind_text(value)}, "",
               {"call one: softmax_ce(logits, label)"});
    return;
  }
  const TensorType& type = ev_.type_of(value);
  if (type.dims != std::vector<int64_t>{kBatch} || type.classes > 0) {
    ev_.refuse("XG0504", at, "a loss has one value a sample", {"this is {}", to_text(type)},
               {"call one, softmax_ce(logits, label), or take the mean over the other dimensions: x -> mean(1)"});
    return;
  }
  const auto terms = split_loss(ev_.graph(), {{value.tensor}}, partial_labels(ev_.graph(), module_.data));
  if (!terms.ok()) {
    const Error& error = terms.error();
    ev_.refuse("XG0504", error.span.valid() ? error.span : at, {"{}", error.message}, "", {"{}", error.help});
    return;
  }
  for (const Head& head : ev_.graph().heads) {
    if (std::ranges::none_of(*terms, [&](const LossTerm& term) {
          return head_of_loss(ev_.graph(), ev_.graph().value(term.rows).producer) == head.node;
        })) {
      ev_.not_yet(head.span, {"the head `{}`, which the loss does not use,", head.name},
                  {"leave it out of the model, or add its loss: loss = softmax_ce(a, label) + softmax_ce(b, other)"});
    }
  }
  module_.train.loss = {{value.tensor}};
  ev_.graph().loss = module_.train.loss;
}

// Checks what reads the values of a head. The head pass runs after all stages, so only losses, metrics, lists, outputs
// and sums of losses can read them.
void ModuleBuilder::check_head_readers() {
  const Graph& graph = ev_.graph();
  const auto of_head = values_of_heads(graph);
  IdVector<ValueId, bool> summed(graph.values.size(), false);  // whether a value is the loss or a part of its sum
  for (const LossTerm& term : graph.loss) {
    summed[term.rows] = true;
  }
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    const auto read = std::ranges::find_if(node.inputs, [&](ValueId input) { return of_head[input]; });
    if (read == node.inputs.end()) {
      continue;
    }
    const NodeId from = graph.value(*read).producer;
    const bool reads_logits = read == node.inputs.begin() && graph.node(from).op->head != nullptr &&
                              (node.op->margin != nullptr || node.op->metric_k != nullptr);
    const bool is_sum = summed[node.outputs[0]];
    for (const ValueId input : node.inputs) {
      summed[input] = summed[input] || (is_sum && !reads_logits);
    }
    if (!reads_logits && !is_sum) {
      ev_.refuse("XG0198", node.span, "this reads a result of a head, which is computed after all other operators",
                 {"`{}` computes with it", node.op->name},
                 {"give heads only to losses, `accuracy`, `topk` and `gather`, and the results of these only to "
                  "outputs and metrics"});
    }
  }
}

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
    // Names are keys of reports, so each has to be unique.
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
  const Callee callee = ev_.find_callee(std::span(&op_name, 1), call_of(ast, expr, op_name), scope);
  if (callee.kind == Callee::kUnknown) {
    return std::nullopt;
  }
  if (callee.kind != Callee::kOp) {
    return ev_.refuse("XG0505", expr.span, {"`{}` is not a metric", callee.name}, "not an operator",
                      {"write accuracy(logits, label)"});
  }
  // `source` selects the samples. It becomes an argument of the node only if the operator requires it.
  const Signature& signature = ev_.signatures().of(*callee.op);
  const auto own = std::find_if(signature.params.begin(), signature.params.end(),
                                [](const Param& param) { return param.name.text == "source"; });
  const bool needed = own != signature.params.end() && !own->value.valid();
  MetricSpec spec{.name = name.empty() ? callee.name : name, .span = expr.span};
  std::vector<Arg> args;
  bool good = true;
  auto place = signature.params.begin();
  for (const Arg& arg : ast[expr.args]) {
    const bool names_source = arg.name ? arg.name.text == "source" : place == own && place != signature.params.end();
    place += !arg.name && place != signature.params.end() ? 1 : 0;
    if (!names_source || needed) {
      args.push_back(arg);
    }
    if (!names_source) {
      continue;
    }
    if (ast[arg.value].kind == ExprKind::kNone) {
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
  if (callee.op->availability == Availability::kNotYet && callee.op->infer == nullptr) {
    ev_.not_yet(op_name.span, {"the metric `{}`", callee.name},
                {"measure accuracy(logits, label) instead, or leave it out"});
    return std::nullopt;
  }
  // Equal calls share one node: a metric that is measured on three sources is computed by one node.
  const size_t nodes = ev_.graph().nodes.size();
  ev_.names().enter(*ev_.names().leaf("metrics", ""));
  const Datum value = ev_.eval_call(
      callee, {.ast = &ast, .args = args, .span = expr.span, .name_span = op_name.span, .read_apart = "source"}, scope);
  ev_.names().leave();
  if (value.is_error() || !good) {
    return std::nullopt;
  }
  Graph& graph = ev_.graph();
  const ValueId made = value.kind == DatumKind::kTensor ? value.tensor : ValueId();
  const Node* const maker = made.valid() ? &graph.node(graph.value(made).producer) : nullptr;
  if (maker != nullptr && maker->op->name == "recall_at") {
    spec.neighbours = maker->attrs.integer("k", 1);
  } else if (!made.valid() || graph.value(made).type.dims != std::vector<int64_t>{kBatch}) {
    return ev_.refuse("XG0505", expr.span, {"`{}` is not a metric", callee.name}, "not one value a sample",
                      {"write accuracy(logits, label)"});
  }
  spec.value = made;
  if (graph.nodes.size() == nodes + 1 && graph.nodes.back().outputs.size() == 1) {
    for (const ValueId known : graph.metrics) {
      const Node& node = graph.node(graph.value(known).producer);
      const Node& last = graph.nodes.back();
      if (node.op == last.op && node.inputs == last.inputs && node.attrs == last.attrs) {
        spec.value = known;
        ev_.drop_last_node();
        break;
      }
    }
  }
  graph.metrics.push_back(spec.value);
  return spec;
}

}  // namespace xrun::lang
