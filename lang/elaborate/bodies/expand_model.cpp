// Models: inputs, outputs, heads and the statements between them become a graph.
// Tests: tests/lang/check_test.cpp, tests/lang/nothing_ignored_test.cpp
#include <fmt/format.h>
#include <utility>

#include "lang/elaborate/evaluator.h"

namespace xrun::lang {

void Evaluator::model_input(const Ast& ast, const Stmt& stmt, Scope& scope) {
  const Name& name = ast[stmt.names][0];
  auto type = tensor_type(ast, stmt.type, scope);
  if (type && options_.f32_inputs && is_narrow(type->dtype)) {
    type->dtype = DType::kF32;
  }
  const Datum value = type ? make_tensor(work_.graph.add_input(std::string(name.text), *type)) : Datum();
  bind_local(name, value, scope, false);
}

void Evaluator::model_output(const Ast& ast, const Stmt& stmt, Scope& scope) {
  for (const Name& name : ast[stmt.names]) {
    const Datum value = eval_name(name, scope);
    if (value.is_error()) {
      continue;
    }
    if (value.kind != DatumKind::kTensor) {
      refuse("XG0303", name.span, {"an output is a tensor, not {}", kind_text(value)}, "",
             {"name an input, a head, or a tensor computed from them"});
    } else if (const Value& known = work_.graph.value(value.tensor); known.param.valid()) {
      refuse("XG0303", name.span,
             {"an output is computed for each sample, and `{}` is a {}", name.text,
              work_.graph.param(known.param).trained ? "parameter" : "state"},
             "", {"leave it out: checkpoints have it"});
    } else if (Local* local = scope.find(name.text); local != nullptr && std::exchange(local->output, true)) {
      refuse("XG0202", name.span, {"`{}` is an output already", name.text}, "again", {"leave it out"});
    } else {
      work_.graph.outputs.push_back({std::string(name.text), value.tensor});
    }
  }
}

Datum Evaluator::refuse_head(Span at) {
  return refuse("XG0224", at, "a head is a call of a classifier", "not a classifier",
                {"write classifier(x, classes) or cosine_classifier(x, classes)"});
}

// For head NAME = classifier(...), the call gets the name of the head, so that its weight is `NAME.weight`.
void Evaluator::model_head(const Ast& ast, const Stmt& stmt, Scope& scope) {
  const Name& name = ast[stmt.names][0];
  const Expr& expr = ast[stmt.value];
  Datum value;
  if (expr.kind == ExprKind::kCall) {
    value = eval_call_expr(ast, expr, scope, name);
    value.span = expr.span;
  } else if (expr.kind == ExprKind::kPipe && ast[expr.stages].back().kind == StageKind::kCall) {
    const auto stages = ast[expr.stages];
    if (const Name& label = stages.back().label) {
      refuse("XG0224", label.span, "a head already has a name", {"it is called `{}`", name.text},
             {"leave `as` and the name out"});
    }
    value = eval_stages(eval(ast, expr.lhs, scope), ast, stages.first(stages.size() - 1), scope);
    if (!value.is_error()) {
      value = eval_stage_call(value, ast, stages.back(), scope, name);
    }
  } else if (expr.kind != ExprKind::kError) {
    value = refuse_head(expr.span);
  }
  if (!value.is_error()) {
    const NodeId node = value.kind == DatumKind::kTensor ? work_.graph.value(value.tensor).producer : NodeId();
    if (!node.valid() || work_.graph.node(node).op->head == nullptr) {
      value = refuse_head(expr.span);
    } else {
      work_.graph.heads.push_back({std::string(name.text), node, name.span});
    }
  }
  bind_local(name, value, scope, false);
}

// Reports parameters without defaults. Nothing calls a model, so no argument can set them; data comes through inputs.
bool Evaluator::refuse_open_params(const Signature& signature, Scope& scope) {
  bool open = false;
  for (const Param& param : signature.params) {
    if (param.value.valid()) {
      continue;
    }
    open = true;
    const bool is_tensor = takes_tensor(param);
    refuse("XG0204", param.span, {"nothing gives `{}` a value: models are not called", param.name.text},
           is_tensor ? "a tensor" : "no value",
           is_tensor
               ? Fix{fmt::format("declare it in the body: input {}", sources_.text(param.span))}
               : Fix{fmt::format("give it one here, {} = ..., or declare an `option`", sources_.text(param.span))});
  }
  if (open) {
    for (const Param& param : signature.params) {
      bind_local(param.name, Datum(), scope, false);
    }
  }
  return open;
}

void Evaluator::build_model(const DeclRef& model, Scope& scope) {
  const Decl& decl = *model.decl;
  const Ast& ast = model.file->ast;
  if (!has_room_for(model, decl.name ? decl.name.span : decl.keyword)) {
    return;
  }
  work_.expansion.push_back({{std::string(decl.name ? decl.name.text : "model"), {}}, {}});
  active_.push_back(&decl);
  called_.insert(&decl);
  const bool outer = std::exchange(in_test_, false);
  const size_t owned = work_.graph.params.size();
  if (decl.has_params && !refuse_open_params(signatures_.of(model), scope)) {
    Scope nothing{.file = model.file};
    const auto bound =
        bind(signatures_.of(model), {.ast = &ast, .span = decl.name.span, .name_span = decl.name.span}, nothing, scope);
    (void)bound;
  }
  const auto run = [&](const Stmt& stmt) {
    recorded_.bound_value = stmt.kind == StmtKind::kBind ? ast[stmt.value].span : Span();
    switch (stmt.kind) {
      case StmtKind::kInput:
        model_input(ast, stmt, scope);
        return Step::kDone;
      case StmtKind::kOutput:
        model_output(ast, stmt, scope);
        return Step::kDone;
      case StmtKind::kHead:
        model_head(ast, stmt, scope);
        return Step::kDone;
      default:
        return Step::kShared;
    }
  };
  walk_body(ast, decl, scope,
            {.run = run,
             .refusal = "a model has `output`, not `return` or `expect`",
             .label = "not a statement of a model",
             .help = "name each result of the model: output NAME; `expect` belongs in a `test`"});
  recorded_.bound_value = {};
  check_states(scope);
  for (const auto& [name, local] : scope.locals) {
    if (local.value.kind == DatumKind::kTensor && local.span.valid()) {
      work_.graph.bindings.push_back({std::string(name), local.value.tensor});
    }
  }
  note_call(decl.name ? decl.name.span : decl.keyword, owned, 0);
  in_test_ = outer;
  active_.pop_back();
  work_.expansion.pop_back();
}

}  // namespace xrun::lang
