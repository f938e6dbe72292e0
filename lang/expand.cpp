// Pipelines, blocks and models: the macros of the language, expanded into the graph with the names that the text gives.
#include <fmt/format.h>

#include "lang/evaluator.h"

namespace xrun::lang {
namespace {

constexpr int64_t kMostCopies = 4'000'000;
// Blocks within blocks: a frame of the stack each, and no model comes near.
constexpr size_t kMostBlocks = 128;

}  // namespace

Datum Evaluator::eval_stages(Datum value, const Ast& ast, std::span<const Stage> stages, Scope& scope) {
  for (const Stage& stage : stages) {
    if (value.hole() || exhausted_) {
      return {};
    }
    value = eval_stage(std::move(value), ast, stage, scope);
    value.span = stage.span;
  }
  return value;
}

Datum Evaluator::eval_stage(Datum value, const Ast& ast, const Stage& stage, Scope& scope) {
  if (!spend(stage.span)) {
    return {};
  }
  if (stage.kind == StageKind::kCall) {
    last_skipped_ = {};
    return eval_stage_call(std::move(value), ast, stage, scope, stage.label);
  }
  if (stage.kind == StageKind::kHole) {
    return {};
  }
  if (stage.kind == StageKind::kRepeat) {
    return eval_repeat(std::move(value), ast, stage, scope);
  }
  // residual, fork and `if` add no scope of their own, unless they are given a name.
  if (stage.label && !enter_scope({}, stage.label, stage.span)) {
    return {};
  }
  Datum result = stage.kind == StageKind::kResidual ? eval_residual(value, ast, stage, scope)
                 : stage.kind == StageKind::kFork   ? eval_fork(value, ast, stage, scope)
                                                    : eval_if_stage(value, ast, stage, scope);
  if (stage.label) {
    names_.leave();
  }
  return result;
}

Datum Evaluator::eval_stage_call(Datum value, const Ast& ast, const Stage& stage, Scope& scope, const Name& label) {
  const auto path = ast[stage.path];
  const Callee callee = find_callee(ast, path, scope);
  const Span name_span = join(path.front().span, path.back().span);
  Span span = stage.span;
  if (stage.label && !stage.has_args) {
    span = name_span;
  } else if (stage.label) {
    // Without ` as label`.
    const std::string_view text = sources_.text(stage.span);
    const size_t close = text.rfind(')');
    span.end = close == std::string_view::npos ? span.end : span.begin + static_cast<uint32_t>(close) + 1;
  }
  return eval_call(callee,
                   {.ast = &ast,
                    .args = ast[stage.args],
                    .flowing = std::move(value),
                    .label = label,
                    .span = span,
                    .name_span = name_span},
                   scope);
}

bool Evaluator::enter_scope(std::string_view name, const Name& label, Span at) {
  const auto path = names_.leaf(name, label.text);
  if (!path) {
    refuse("XG0209", at, fmt::format("two parts of this scope are called `{}`", label.text),
           "tensors take their names from labels: choose another one");
    return false;
  }
  names_.enter(*path);
  return true;
}

Datum Evaluator::eval_repeat(Datum value, const Ast& ast, const Stage& stage, Scope& scope) {
  const Datum count = eval(ast, stage.value, scope);
  if (count.hole()) {
    return {};
  }
  const auto copies = to_int64(count);
  if (!copies || *copies < 0 || *copies > kMostCopies) {
    return refuse("XG0304", count.span,
                  fmt::format("a repeat count is a whole number of 0 and more, not {}", to_text(count)),
                  fmt::format("at most {}", kMostCopies));
  }
  if (!enter_scope("repeat", stage.label, stage.span)) {
    return {};
  }
  const std::string base = names_.path();
  for (int64_t i = 0; i < *copies && !value.hole(); ++i) {
    names_.enter(base + "." + std::to_string(i));
    Scope inside;
    inside.parent = &scope;
    inside.file = scope.file;
    if (stage.index) {
      inside.locals[stage.index.text] = {.value = make_whole(i), .span = stage.index.span, .used = true};
    }
    value = eval_stages(std::move(value), ast, ast[ast[stage.pipes][0].stages], inside);
    names_.leave();
  }
  names_.leave();
  return value;
}

Datum Evaluator::eval_residual(const Datum& value, const Ast& ast, const Stage& stage, Scope& scope) {
  if (value.kind != DatumKind::kTensor) {
    return refuse("XG0303", stage.span, fmt::format("`residual` adds to a tensor, not to {}", kind_text(value)));
  }
  const Datum inner = eval_stages(value, ast, ast[ast[stage.pipes][0].stages], scope);
  if (inner.hole()) {
    return {};
  }
  const OpDef* add = options_.ops->find("add");
  if (inner.kind != DatumKind::kTensor || add == nullptr) {
    return refuse("XG0303", stage.span, fmt::format("`residual` adds a tensor, not {}", kind_text(inner)));
  }
  if (refuse_sharded(inner, stage.span)) {
    return {};
  }
  if (type_of(value).dims != type_of(inner).dims) {
    Diagnostic d = fault("XG0301", stage.span, "a residual has to keep the shape of what flows in",
                         fmt::format("{} becomes {}", to_text(type_of(value)), to_text(type_of(inner))));
    report(std::move(d));
    return {};
  }
  return apply(*add, {value, inner}, {}, {}, stage.span);
}

Datum Evaluator::eval_fork(const Datum& value, const Ast& ast, const Stage& stage, Scope& scope) {
  std::vector<Datum> items;
  for (const Pipe& pipe : ast[stage.pipes]) {
    items.push_back(eval_stages(value, ast, ast[pipe.stages], scope));
    if (items.back().hole()) {
      return {};
    }
  }
  return make_list(DatumKind::kTuple, std::move(items), stage.span);
}

Datum Evaluator::eval_if_stage(Datum value, const Ast& ast, const Stage& stage, Scope& scope) {
  const auto taken = condition(ast, stage.value, scope);
  if (!taken) {
    return {};
  }
  const auto pipes = ast[stage.pipes];
  if (!*taken && pipes.size() < 2) {
    last_skipped_ = {.condition = ast[stage.value].span, .pipe = pipes[0].span, .input = {}};
    return value;
  }
  return eval_stages(std::move(value), ast, ast[pipes[*taken ? 0 : 1].stages], scope);
}

bool Evaluator::bind_local(const Name& name, Datum value, Scope& scope, bool warns) {
  if (name.text == "_") {
    return true;
  }
  if (name.text == "N") {
    refuse("XG0202", name.span, "`N` is the batch dimension and cannot be bound", "choose another name");
    return false;
  }
  if (const auto known = scope.locals.find(name.text); known != scope.locals.end()) {
    Diagnostic d = fault("XG0202", name.span, fmt::format("`{}` is bound twice", name.text), "bound again");
    if (known->second.span.valid()) {
      d.secondary.push_back({known->second.span, "bound here first"});
    }
    d.notes.push_back("a name keeps its value: give the new one a name of its own");
    report(std::move(d));
    return false;
  }
  value.span = name.span;
  scope.locals[name.text] = {.value = std::move(value), .span = name.span, .warns = warns, .skipped = last_skipped_};
  return true;
}

void Evaluator::bind_names(const Ast& ast, const Stmt& stmt, Datum value, Scope& scope) {
  const auto names = ast[stmt.names];
  if (!stmt.is_tuple) {
    bind_local(names[0], std::move(value), scope, true);
    return;
  }
  if (!value.hole() && (value.kind != DatumKind::kTuple || value.items->size() != names.size())) {
    refuse("XG0304", value.span, fmt::format("{} names are bound to {}", names.size(), kind_text(value)));
    value = {};
  }
  for (size_t i = 0; i < names.size(); ++i) {
    bind_local(names[i], value.hole() ? Datum() : (*value.items)[i], scope, true);
  }
}

void Evaluator::run_assert(const Ast& ast, const Stmt& stmt, Scope& scope) {
  const auto holds = condition(ast, stmt.value, scope);
  if (holds && !*holds) {
    const std::string text = stmt.message.valid() && ast[stmt.message].kind == ExprKind::kString
                                 ? ast.text(stmt.message)
                                 : fmt::format("`{}` does not hold", sources_.text(ast[stmt.value].span));
    refuse("XG0218", ast[stmt.value].span, text, "false here");
  }
}

Datum Evaluator::call_block(const DeclRef& block, const std::vector<BoundArg>& bound, Scope& env, const Call& call) {
  const Decl& decl = *block.decl;
  if (std::find(active_.begin(), active_.end(), &decl) != active_.end()) {
    return refuse("XG0208", call.span, fmt::format("`{}` contains itself", decl.name.text),
                  "functions and blocks do not recur; `repeat` repeats");
  }
  if (active_.size() >= kMostBlocks) {
    return too_deep(call.span);
  }
  if (!spend(call.span) || !enter_scope(decl.name.text, call.label, call.span)) {
    return {};
  }
  std::string shown;
  if (call.label) {
    shown = fmt::format("{} ({})", call.label.text, decl.name.text);
  } else {
    std::string args;
    for (const BoundArg& arg : bound) {
      if (!takes_tensor(*arg.param) && arg.value().kind != DatumKind::kTensor) {
        args += fmt::format("{}{}={}", args.empty() ? "" : ", ", arg.param->name.text, to_text(arg.value()));
      }
    }
    shown = args.empty() ? std::string(decl.name.text) : fmt::format("{}({})", decl.name.text, args);
  }
  expansion_.push_back({std::move(shown), call.span});
  active_.push_back(&decl);
  const Ast& ast = block.file->ast;
  Datum result;
  bool returned = false;
  for (const Stmt& stmt : ast[decl.body]) {
    if (exhausted_) {
      break;
    }
    last_skipped_ = {};
    if (returned) {
      refuse("XG0224", stmt.span, "nothing follows `return`", "never reached");
      break;
    }
    switch (stmt.kind) {
      case StmtKind::kHole:
        result = {};
        break;
      case StmtKind::kBind:
        bind_names(ast, stmt, eval(ast, stmt.value, env), env);
        break;
      case StmtKind::kReturn:
        result = eval(ast, stmt.value, env);
        returned = true;
        break;
      case StmtKind::kAssert:
        run_assert(ast, stmt, env);
        break;
      case StmtKind::kParam:
      case StmtKind::kState:
        refuse("XG0199", stmt.span, "own parameters of a block are not available yet", "of a later edition of xrun");
        break;
      default:
        refuse("XG0224", stmt.span, "a block has no inputs, outputs or heads", "these belong to a model");
    }
  }
  if (!returned) {
    refuse("XG0224", decl.name.span, fmt::format("block `{}` returns nothing", decl.name.text),
           "a block ends with `return`");
    result = {};
  }
  if (!result.hole()) {
    warn_unused(env);
    check_results(block, result, env, call.span);
  }
  active_.pop_back();
  expansion_.pop_back();
  names_.leave();
  last_skipped_ = {};
  return result;
}

void Evaluator::check_results(const DeclRef& block, const Datum& value, Scope& env, Span at) {
  const Ast& ast = block.file->ast;
  const auto results = ast[block.decl->results];
  if (results.empty()) {
    return;
  }
  std::vector<Datum> values{value};
  if (value.kind == DatumKind::kTuple) {
    values = *value.items;
  }
  if (values.size() != results.size()) {
    refuse("XG0306", block.decl->name.span,
           fmt::format("`{}` says that it returns {} values, and returns {}", block.decl->name.text, results.size(),
                       values.size()));
    return;
  }
  for (size_t i = 0; i < results.size(); ++i) {
    match(ast, results[i], values[i], env, values[i].span.valid() ? values[i].span : at,
          fmt::format("the result of `{}`", block.decl->name.text));
  }
}

void Evaluator::warn_unused(const Scope& scope) {
  for (const auto& [name, local] : scope.locals) {
    if (local.warns && !local.used && !local.value.hole() && !name.starts_with('_')) {
      warn("XG0215", local.span, fmt::format("`{}` is never used", name), "leave it out, or call it `_`");
    }
  }
}

void Evaluator::model_input(const Ast& ast, const Stmt& stmt, Scope& scope) {
  const Name& name = ast[stmt.names][0];
  const auto type = tensor_type(ast, stmt.type, scope);
  const Datum value = type ? make_tensor(graph_.add_input(std::string(name.text), *type)) : Datum();
  bind_local(name, value, scope, false);
}

void Evaluator::model_output(const Ast& ast, const Stmt& stmt, Scope& scope) {
  for (const Name& name : ast[stmt.names]) {
    const Datum value = eval_name(name, scope);
    if (value.hole()) {
      continue;
    }
    if (value.kind != DatumKind::kTensor) {
      refuse("XG0303", name.span, fmt::format("an output is a tensor, not {}", kind_text(value)));
    } else {
      graph_.outputs.push_back({std::string(name.text), value.tensor});
    }
  }
}

// head NAME = classifier(...): the call takes the head's name, so that its weight is `NAME.weight`.
void Evaluator::model_head(const Ast& ast, const Stmt& stmt, Scope& scope) {
  const Name& name = ast[stmt.names][0];
  const Expr& expr = ast[stmt.value];
  Datum value;
  if (expr.kind == ExprKind::kCall) {
    value = eval_call_expr(ast, expr, scope, name);
    value.span = expr.span;
  } else if (expr.kind == ExprKind::kPipe && ast[expr.stages].back().kind == StageKind::kCall) {
    const auto stages = ast[expr.stages];
    value = eval_stages(eval(ast, expr.lhs, scope), ast, stages.first(stages.size() - 1), scope);
    if (!value.hole()) {
      value = eval_stage_call(value, ast, stages.back(), scope, name);
    }
  } else if (expr.kind != ExprKind::kHole) {
    value = refuse("XG0224", expr.span, "a head is a call of a classifier",
                   "classifier(x, classes), cosine_classifier(x, classes)");
  }
  if (!value.hole()) {
    const NodeId node = value.kind == DatumKind::kTensor ? graph_.value(value.tensor).producer : NodeId();
    if (!node.valid() || graph_.node(node).op->head == nullptr) {
      value = refuse("XG0224", expr.span, "a head is a call of a classifier",
                     "classifier(x, classes), cosine_classifier(x, classes)");
    } else {
      graph_.heads.push_back({std::string(name.text), node, name.span});
    }
  }
  bind_local(name, value, scope, false);
}

void Evaluator::build_model(const DeclRef& model, Scope& scope) {
  const Decl& decl = *model.decl;
  const Ast& ast = model.file->ast;
  expansion_.push_back({std::string(decl.name ? decl.name.text : "model"), {}});
  active_.push_back(&decl);
  if (decl.has_params) {
    Signature signature{.name = std::string(decl.name.text), .ast = &ast, .params = ast[decl.params]};
    signature.text = fmt::format("model {}", decl.name.text);
    Scope nothing;
    nothing.file = model.file;
    const auto bound =
        bind(signature, {.ast = &ast, .span = decl.name.span, .name_span = decl.name.span}, nothing, scope);
    (void)bound;
  }
  for (const Stmt& stmt : ast[decl.body]) {
    if (exhausted_) {
      break;
    }
    last_skipped_ = {};
    switch (stmt.kind) {
      case StmtKind::kHole:
        break;
      case StmtKind::kInput:
        model_input(ast, stmt, scope);
        break;
      case StmtKind::kOutput:
        model_output(ast, stmt, scope);
        break;
      case StmtKind::kHead:
        model_head(ast, stmt, scope);
        break;
      case StmtKind::kBind:
        bind_names(ast, stmt, eval(ast, stmt.value, scope), scope);
        break;
      case StmtKind::kAssert:
        run_assert(ast, stmt, scope);
        break;
      case StmtKind::kParam:
      case StmtKind::kState:
        refuse("XG0199", stmt.span, "own parameters of a model are not available yet", "of a later edition of xrun");
        break;
      default:
        refuse("XG0224", stmt.span, "a model has `output`, not `return` or `expect`", "not a statement of a model");
    }
  }
  for (const auto& [name, local] : scope.locals) {
    if (local.value.kind == DatumKind::kTensor && local.span.valid()) {
      graph_.bindings.push_back({std::string(name), local.value.tensor});
    }
  }
  active_.pop_back();
  expansion_.pop_back();
}

}  // namespace xrun::lang
