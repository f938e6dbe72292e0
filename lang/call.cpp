// Calls: what a name stands for, and what calling it gives.
#include <fmt/format.h>

#include "lang/evaluator.h"
#include "lang/nearest.h"

namespace xrun::lang {
namespace {

bool is_measure(std::string_view name) {
  return name == "params" || name == "shape" || name == "flops" || name == "bytes";
}

}  // namespace

Callee Evaluator::find_callee(const Ast&, std::span<const Name> path, Scope& scope) {
  Callee callee{.name = join_path(path)};
  const Name& last = path.back();
  const SourceFile* file = scope.file;
  if (path.size() == 2 && file != nullptr) {
    const auto module = file->modules.find(path[0].text);
    file = module == file->modules.end() ? nullptr : module->second;
  } else if (path.size() > 2) {
    file = nullptr;
  }
  const DeclRef found = file != nullptr ? file->find(last.text) : DeclRef{};
  if (found) {
    callee.decl = found;
    switch (found.decl->kind) {
      case DeclKind::kBlock:
        callee.kind = Callee::kBlock;
        return callee;
      case DeclKind::kFn:
        callee.kind = Callee::kFn;
        return callee;
      case DeclKind::kPointwise:
        callee.kind = Callee::kPointwise;
        return callee;
      default:
        refuse("XG0220", last.span,
               fmt::format("`{}` is a {} and cannot be called", callee.name, keyword_of(found.decl->kind)));
        return callee;
    }
  }
  if (path.size() == 1) {
    // `max` is an operator on tensors and a function of numbers: the arguments decide (eval_call).
    callee.op = options_.ops->find(last.text);
    if (callee.op != nullptr && last.text.find('.') == std::string_view::npos) {
      callee.kind = Callee::kOp;
      return callee;
    }
    if (is_constant_function(last.text) || (in_test_ && is_measure(last.text))) {
      callee.kind = Callee::kBuiltin;
      return callee;
    }
  }
  std::vector<std::string> candidates;
  if (file != nullptr) {
    for (const auto& [known, decl] : file->names) {
      candidates.emplace_back(known);
    }
    for (const auto& [known, decl] : file->used) {
      candidates.emplace_back(known);
    }
  }
  if (path.size() == 1) {
    for (const OpDef* op : options_.ops->all()) {
      if (op->name.find('.') == std::string_view::npos) {
        candidates.emplace_back(op->name);
      }
    }
  }
  const bool is_value = scope.find(last.text) != nullptr && path.size() == 1;
  Diagnostic d = is_value ? fault("XG0220", last.span, fmt::format("`{}` is a value and cannot be called", last.text),
                                  "not an operator, block or function")
                          : fault("XG0201", last.span, fmt::format("there is no operator or block `{}`", callee.name),
                                  "unknown name");
  if (const std::string near = nearest(last.text, candidates); !near.empty() && !is_value) {
    d.fixes.push_back({.title = "did you mean `" + near + "`?", .edits = {{last.span, near}}});
  }
  report(std::move(d));
  return callee;
}

Datum Evaluator::eval_call_expr(const Ast& ast, const Expr& expr, Scope& scope, const Name& label) {
  const Expr& lhs = ast[expr.lhs];
  std::vector<Name> path;
  if (lhs.kind == ExprKind::kName) {
    path = {lhs.name};
  } else if (lhs.kind == ExprKind::kField && ast[lhs.lhs].kind == ExprKind::kName) {
    path = {ast[lhs.lhs].name, lhs.name};
  } else {
    const Datum value = eval(ast, expr.lhs, scope);
    return value.hole() ? value : refuse("XG0220", lhs.span, fmt::format("{} cannot be called", kind_text(value)));
  }
  const Callee callee = find_callee(ast, path, scope);
  return eval_call(
      callee, {.ast = &ast, .args = ast[expr.args], .label = label, .span = expr.span, .name_span = lhs.span}, scope);
}

Datum Evaluator::eval_call(const Callee& callee, const Call& call, Scope& scope) {
  switch (callee.kind) {
    case Callee::kUnknown:
      return {};
    case Callee::kOp: {
      // Functions of numbers that are operators, too: by the first argument.
      if (is_constant_function(callee.name) && !call.flowing && !call.args.empty() && !call.args[0].name) {
        const size_t nodes = work_.graph.nodes.size();
        const Datum first = eval(*call.ast, call.args[0].value, scope);
        if (first.hole()) {
          return first;
        }
        if (first.kind != DatumKind::kTensor && work_.graph.nodes.size() == nodes) {
          return call_builtin(callee.name, call, scope);
        }
        Call flowing = call;
        flowing.flowing = first;
        flowing.args = call.args.subspan(1);
        return call_op(*callee.op, flowing, scope);
      }
      return call_op(*callee.op, call, scope);
    }
    case Callee::kBuiltin:
      return is_measure(callee.name) ? call_measure(callee.name, call, scope) : call_builtin(callee.name, call, scope);
    case Callee::kFn:
      return call_fn(callee.decl, call, scope);
    case Callee::kPointwise:
      return refuse("XG0199", call.span, fmt::format("`pointwise {}` is not available yet", callee.name),
                    "of a later edition of xrun");
    case Callee::kBlock: {
      Scope env;
      env.file = callee.decl.file;
      const auto bound = bind(signatures_.of(callee.decl), call, scope, env);
      return bound ? call_block(callee.decl, *bound, env, call) : Datum();
    }
  }
  return {};
}

Datum Evaluator::call_op(const OpDef& op, const Call& call, Scope& scope) {
  const Signature& signature = signatures_.of(op);
  Scope env;
  env.file = nullptr;
  const auto bound = bind(signature, call, scope, env, call.flowing ? Span{} : call.span);
  if (!bound) {
    return {};
  }
  const auto attrs = attributes(signature, *bound);
  if (!attrs) {
    return {};
  }
  std::vector<Datum> inputs;
  for (const BoundArg& arg : *bound) {
    if (takes_tensor(*arg.param)) {
      for (const Datum& value : arg.values) {
        if (value.kind == DatumKind::kTensor) {
          inputs.push_back(value);
        }
      }
    }
  }
  if (op.availability == Availability::kNotYet) {
    not_yet(call.name_span, fmt::format("the operator `{}`", op.name));
  }
  return apply(op, std::move(inputs), *attrs, call.label.text, call.span);
}

Datum Evaluator::apply(const OpDef& op, std::vector<Datum> inputs, Attrs attrs, std::string_view label, Span at) {
  if (op.infer == nullptr) {
    return refuse("XG0199", at, fmt::format("the operator `{}` is not available yet", op.name),
                  "of a later edition of xrun");
  }
  const auto path = work_.names.leaf(op.name, label);
  if (!path) {
    return refuse("XG0209", at, fmt::format("two parts of this scope are called `{}`", label),
                  "tensors take their names from labels: choose another one");
  }
  work_.name_weight += static_cast<int64_t>(path->size() / 64);
  std::vector<ValueId> ids;
  for (const Datum& input : inputs) {
    ids.push_back(input.tensor);
  }
  auto made = xrun::call_op(work_.graph, op, std::move(ids), std::move(attrs), *path, at);
  if (!made.ok()) {
    const Error& error = made.error();
    std::string shapes;
    for (const Datum& input : inputs) {
      shapes += (shapes.empty() ? "" : ", ") + to_text(type_of(input));
    }
    Diagnostic d = fault(error.code.empty() ? "XG0302" : error.code.c_str(), at, error.message,
                         shapes.empty() ? "" : "gets " + shapes);
    if (!error.help.empty()) {
      d.fixes.push_back({.title = error.help});
    }
    report(std::move(d));
    return {};
  }
  Node& node = work_.graph.node(*made);
  node.expansion = work_.expansion_id();
  const bool owns = std::any_of(node.inputs.begin(), node.inputs.end(),
                                [&](ValueId id) { return work_.graph.value(id).param.valid(); });
  if (options_.strict && owns && label.empty() && work_.names.count(op.name) > 1) {
    warn("XG0225", at, fmt::format("`{}` has no label, and it is not the only `{}` here", op.name, op.name),
         fmt::format("its tensors are called `{}`: one more before it would rename them", node.path));
  }
  const size_t visible = std::min(node.outputs.size(), static_cast<size_t>(std::max(op.visible_outputs, 1)));
  Datum result = make_tensor(node.outputs[0]);
  result.span = at;
  if (visible > 1) {
    std::vector<Datum> items;
    for (size_t i = 0; i < visible; ++i) {
      items.push_back(make_tensor(node.outputs[i]));
      items.back().span = at;
    }
    result = make_items(DatumKind::kTuple, std::move(items));
    result.span = at;
  }
  return result;
}

Datum Evaluator::call_builtin(const std::string& name, const Call& call, Scope& scope) {
  std::vector<Datum> args;
  if (call.flowing) {
    args.push_back(*call.flowing);
  }
  for (const Arg& arg : call.args) {
    if (arg.name) {
      return refuse("XG0203", arg.name.span, fmt::format("`{}` has no argument named `{}`", name, arg.name.text),
                    "unknown argument");
    }
    args.push_back(eval(*call.ast, arg.value, scope));
    if (args.back().hole()) {
      return {};
    }
  }
  std::string problem;
  Datum value = constant_function(name, args, problem);
  if (value.hole()) {
    return refuse("XG0304", call.span, std::move(problem), "");
  }
  return value;
}

Datum Evaluator::call_fn(const DeclRef& fn, const Call& call, Scope& scope) {
  const Decl& decl = *fn.decl;
  if (std::find(active_.begin(), active_.end(), &decl) != active_.end()) {
    return refuse("XG0208", call.span, fmt::format("`{}` calls itself", decl.name.text),
                  "functions and blocks do not recur; `repeat` repeats");
  }
  const Ast& ast = fn.file->ast;
  Scope env;
  env.file = fn.file;
  const auto bound = bind(signatures_.of(fn), call, scope, env);
  if (!bound) {
    return {};
  }
  for (const BoundArg& arg : *bound) {
    if (arg.value().kind == DatumKind::kTensor) {
      return refuse("XG0205", arg.span, fmt::format("`{}` is a function of constants, not of tensors", decl.name.text),
                    "a `block` takes tensors");
    }
  }
  active_.push_back(&decl);
  called_.insert(&decl);
  Datum value = eval(ast, decl.value, env);
  active_.pop_back();
  return value;
}

}  // namespace xrun::lang
