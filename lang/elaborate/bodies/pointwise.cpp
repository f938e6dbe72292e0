// Calls of `pointwise` functions, and operations on tensors whose sign has no operator of its own. Both become one node
// `map` that has the function as text.
#include <algorithm>
#include <fmt/format.h>

#include "lang/elaborate/evaluator.h"

namespace xrun::lang {
namespace {

// Makes a scalar of `expr` that stands for an element of a tensor or of a function of parameters. The inputs of `expr`
// are the tensors in the order of their first use, each once.
Datum element_of(const Datum& tensor, std::vector<Datum>& tensors, ScalarExpr& expr, Span at) {
  if (tensor.kind == DatumKind::kOfParams) {
    std::vector<ScalarId> inputs;
    for (const Datum& param : *tensor.items) {
      inputs.push_back(element_of(param, tensors, expr, at).scalar);
    }
    Datum element{.kind = DatumKind::kScalar, .scalar = expr.insert(*parse_scalar_expr(tensor.text), inputs)[0]};
    element.span = at;
    return element;
  }
  const auto known = std::ranges::find(tensors, tensor.tensor, &Datum::tensor);
  const auto index = static_cast<int>(known - tensors.begin());
  if (known == tensors.end()) {
    tensors.push_back(tensor);
  }
  Datum element{.kind = DatumKind::kScalar, .scalar = expr.input(index)};
  element.span = at;
  return element;
}

}  // namespace

bool Evaluator::is_of_params(const Datum& value) const {
  return value.kind == DatumKind::kOfParams || (value.kind == DatumKind::kTensor && !type_of(value).has_batch());
}

Datum Evaluator::call_pointwise(const DeclRef& ref, const Call& call, Scope& scope) {
  const Decl& decl = *ref.decl;
  if (std::ranges::find(active_, &decl) != active_.end()) {
    return recurs(call.span, fmt::format("`{}` calls itself", decl.name.text));
  }
  Scope env{.file = ref.file};
  const auto bound = bind(signatures_.of(ref), call, scope, env);
  if (!bound) {
    return {};
  }
  if (scalars_ != nullptr) {
    return pointwise_body(ref, env);
  }
  ScalarExpr expr;
  std::vector<Datum> tensors;
  for (const BoundArg& arg : *bound) {
    const Datum& value = arg.value();
    if (value.has_elements()) {
      if (value.kind == DatumKind::kTensor && refuse_sharded(value, arg.span)) {
        return {};
      }
      const Name& name = arg.param->name;
      env.locals[name.text].value = element_of(value, tensors, expr, name.span);
    } else if (!value.plain_number() && value.kind != DatumKind::kBool) {
      report(with_signature(fault("XG0205", arg.span,
                                  {"`{}` of `{}` expects a tensor or a number, but gets {}", arg.param->name.text,
                                   decl.name.text, kind_text(value)},
                                  "", {"write a tensor or a plain number here"}),
                            signatures_.of(ref)));
      return {};
    }
  }
  const BuildsScalars building(scalars_, &expr);
  const bool is_first = called_.insert(&decl).second;
  Datum value = pointwise_body(ref, env);
  if (tensors.empty() && value.kind == DatumKind::kScalar) {
    return refuse("XG0304", call.span, {"`{}` has no finite value at these numbers", decl.name.text}, "",
                  {"give it numbers at which all of its operations are defined"});
  }
  if (!value.is_error() && !tensors.empty()) {
    const auto result = scalar_of(value, call.span);
    if (result) {
      expr.set_results({*result});
      value = apply_map(expr, tensors, decl.name.text, call.label, call.span);
    }
    if (is_first && !value.is_error()) {
      warn_derivatives(decl, expr, static_cast<int>(tensors.size()));
    }
  }
  return value;
}

Datum Evaluator::pointwise_body(const DeclRef& ref, Scope& env) {
  active_.push_back(ref.decl);
  NormCalls* const norms = std::exchange(norms_, nullptr);  // no norm(x) in it: its x is a number
  MeanCalls* const means = std::exchange(means_, nullptr);
  Datum value = eval(ref.file->ast, ref.decl->value, env);
  norms_ = norms;
  means_ = means;
  active_.pop_back();
  if (value.is_error() || value.kind == DatumKind::kScalar || value.plain_number() || value.kind == DatumKind::kBool) {
    return value;
  }
  return refuse("XG0304", value.span, {"a `pointwise` gives a number for each element, not {}", kind_text(value)}, "",
                {"let it end with arithmetic of its parameters"});
}

Datum Evaluator::apply_map(const ScalarExpr& expr, const std::vector<Datum>& tensors, std::string_view name,
                           const Name& label, Span at) {
  const OpDef* map = options_.ops->find("map");
  if (map == nullptr) {
    return refuse("XG0199", at, {"`{}` needs the operator `map`, which these operators lack", name}, "",
                  {"report this"});
  }
  // The gradient has about four operations for each operation of the function and each tensor.
  const bool has_room =
      expr.operations() <= kMostScalarOps && 4 * tensors.size() * expr.operations() <= kMostDerivedScalarOps;
  if (tensors.size() > kMostScalarInputs || !has_room) {
    return refuse("XG0216", at,
                  {"`{}` has {} operations on {} tensors; at most {} on {} are possible", name, expr.operations(),
                   tensors.size(), kMostScalarOps, kMostScalarInputs},
                  "", {"cut it into several functions, called one after the other"});
  }
  if (std::ranges::all_of(tensors, [&](const Datum& tensor) { return is_of_params(tensor); })) {
    Datum made = make_items(DatumKind::kOfParams, tensors);
    made.text = to_text(expr);
    made.span = at;
    return made;
  }
  return apply(*map, tensors, Attrs{{"y", to_text(expr)}}, label, at, name);
}

// Warns if a function is finite at no point, or if its derivative by a parameter is.
void Evaluator::warn_derivatives(const Decl& decl, const ScalarExpr& expr, int inputs) {
  const auto warn = [&](const ScalarNode* node, std::string_view what) {
    if (node != nullptr) {
      report(warning("XG0313", decl.name.span,
                     {"{} of `{}` is never finite: `{}` has no finite value", what, decl.name.text, name_of(node->op)},
                     "cannot train", {"keep its argument where it is defined: max(x, 1e-6), clamp(x, -0.999, 0.999)"}));
    }
    return node != nullptr;
  };
  constexpr size_t kMostChecked = 512;  // bounds the work; larger functions are rarely written by hand
  steps_ += static_cast<int64_t>(expr.nodes().size()) * (inputs + 1);
  if (expr.operations() > kMostChecked || warn(never_finite(expr), "the result")) {
    return;
  }
  for (int i = 0; i < inputs; ++i) {
    const int wanted[] = {i};
    if (warn(never_finite(gradient_of(expr, inputs, wanted)), "the derivative")) {
      return;
    }
  }
}

// Evaluates a function as an argument, such as `arc(m=0.3)`, whose first parameter stays open. Returns the text of this
// function of one number.
std::optional<Datum> Evaluator::margin_function(const Signature& signature, const Param& param, const Ast& ast,
                                                ExprId id, Scope& scope) {
  const Expr& expr = ast[id];
  const bool is_call = expr.kind == ExprKind::kCall;
  const Expr& named = is_call ? ast[expr.lhs] : expr;
  const bool in_module = named.kind == ExprKind::kField && ast[named.lhs].kind == ExprKind::kName;
  Callee callee;
  Call call{.ast = &ast, .span = expr.span, .name_span = named.span};
  call.args = is_call ? ast[expr.args] : std::span<const Arg>();
  if (named.kind == ExprKind::kName || in_module) {
    const std::vector<Name> path = in_module ? std::vector{ast[named.lhs].name, named.name} : std::vector{named.name};
    callee = find_callee(path, call, scope);
    if (callee.kind == Callee::kUnknown) {
      return std::nullopt;  // already reported
    }
  }
  if (callee.kind != Callee::kPointwise || scalars_ != nullptr) {
    report(with_signature(
        fault("XG0205", expr.span, {"`{}` of `{}` expects a `pointwise` function", param.name.text, signature.name}, "",
              {"declare one, pointwise arc(c, m = 0.5) = ..., and write its name: arc(m=0.3)"}),
        signature));
    return std::nullopt;
  }
  ScalarExpr made;
  const BuildsScalars building(scalars_, &made);
  call.flowing = Datum{.kind = DatumKind::kScalar, .scalar = made.input(0)};
  call.flowing->span = named.span;
  const bool is_first = called_.insert(callee.decl.decl).second;
  const Datum value = call_pointwise(callee.decl, call, scope);
  const auto result = value.is_error() ? std::nullopt : scalar_of(value, expr.span);
  if (!result) {
    return std::nullopt;
  }
  made.set_results({*result});
  if (is_first) {
    warn_derivatives(*callee.decl.decl, made, 1);
  }
  Datum text = make_string(to_text(made));
  text.span = expr.span;
  return text;
}

// Evaluates the body of a `pointwise` function that nothing calls.
void Evaluator::try_pointwise(const DeclRef& ref) {
  ScalarExpr expr;
  const BuildsScalars building(scalars_, &expr);
  Scope env{.file = ref.file};
  int inputs = 0;
  const Signature& signature = signatures_.of(ref);
  for (const Param& param : signature.params) {
    Datum value{.kind = DatumKind::kScalar, .scalar = {}};
    if (param.value.valid()) {
      const auto given = argument(signature, param, ref.file->ast, param.value, env);
      value = given ? *given : Datum();
    } else {
      value.scalar = expr.input(inputs++);
    }
    bind_param(param, std::move(value), env);
  }
  const Datum value = pointwise_body(ref, env);
  if (!value.is_error()) {
    if (const auto result = scalar_of(value, ref.decl->name.span)) {
      expr.set_results({*result});
      warn_derivatives(*ref.decl, expr, inputs);
    }
  }
}

// Makes the node for `x ^ 2`, `x > 0` or `max(x, y)`, an operation on tensors and numbers. `compute` builds its result.
Datum Evaluator::map_of(const std::vector<Datum>& operands, std::string_view name, Span at,
                        const std::function<Datum(const std::vector<Datum>&)>& compute) {
  ScalarExpr expr;
  std::vector<Datum> tensors;
  std::vector<Datum> elements;
  for (const Datum& operand : operands) {
    if (operand.kind == DatumKind::kTensor && refuse_sharded(operand, at)) {
      return {};
    }
    elements.push_back(operand.has_elements() ? element_of(operand, tensors, expr, operand.span) : operand);
  }
  const BuildsScalars building(scalars_, &expr);
  const Datum value = compute(elements);
  const auto result = scalar_of(value, at);
  if (!result) {
    return {};
  }
  expr.set_results({*result});
  return apply_map(expr, tensors, name, {}, at);
}

}  // namespace xrun::lang
