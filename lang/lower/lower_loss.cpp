// Lowers the loss of `train`, an expression over the model and the data, to nodes of the graph, and checks what reads
// the values of heads.
#include <algorithm>
#include <fmt/format.h>

#include "graph/layouts/head_values.h"
#include "graph/layouts/partial_labels.h"
#include "graph/passes/split_loss.h"
#include "lang/lower/module_builder.h"
#include "lang/text/nearest.h"

namespace xrun::lang {

namespace {

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

// Checks that only losses, metrics, lists, outputs and sums of losses read the values of a head. Other operators cannot
// read them, because the head pass computes them after all stages.
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

}  // namespace xrun::lang
