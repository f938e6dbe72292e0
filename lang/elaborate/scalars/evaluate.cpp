// Evaluates expressions: computes constants, and appends nodes for tensors.
// Tests: tests/lang/check_test.cpp, tests/lang/elaborate/check_limits_test.cpp
#include <fmt/format.h>

#include "lang/elaborate/evaluator.h"
#include "lang/elaborate/facts.h"

namespace xrun::lang {
namespace {

// The deepest recursion of `eval`, which bounds its stack. An expression may be 512 nodes high, and nested blocks add
// to that. Calls have larger stack frames and a smaller bound of their own.
constexpr int kDeepest = 800;
constexpr int64_t kHeaviest = 1 << 20;
constexpr int kDeepestList = 64;

}  // namespace

Evaluator::Evaluator(SourceMap& sources, Diagnostics& diagnostics, const FrontendOptions& options,
                     Signatures& signatures)
    : sources_(sources),
      diagnostics_(diagnostics),
      options_(options),
      signatures_(signatures),
      sizes_(std::make_shared<ExpansionSizes>(options.ops)) {}

void Evaluator::report(Diagnostic diagnostic) {
  // The chain of expansions is shown only if it has a block. For a fault in the model itself the place in the text
  // suffices.
  if (work_.expansion.size() > 1 && diagnostic.expansion.empty()) {
    diagnostic.expansion = work_.steps();
  }
  diagnostics_.add(std::move(diagnostic));
}

void Evaluator::note(const Span& at, const Datum& value) const {
  if (options_.facts != nullptr) {
    options_.facts->add_value(at, value, work_.graph);
  }
}

void Evaluator::note_call(const Span& at, size_t owned, size_t made) {
  const bool has_made = owned < work_.graph.params.size() || made < work_.graph.nodes.size();
  if (options_.facts != nullptr && at.valid() && has_made) {
    options_.facts->add_call(at, work_.graph, owned, work_.flops_from(made));
  }
}

Refused Evaluator::refuse(const char* code, Span at, Text message, Text label, Help help) {
  report(fault(code, at, std::move(message), std::move(label), std::move(help)));
  return {};
}

void Evaluator::not_yet(Span at, Text what, Help help) {
  Diagnostic d =
      fault("XG0199", at, {"{} is not available yet", what.text}, "of a later edition of xrun", std::move(help));
  for (const Diagnostic& known : not_yet_) {
    if (known.message == d.message) {
      return;
    }
  }
  not_yet_.push_back(std::move(d));
}

Datum Evaluator::eval(const Ast& ast, ExprId id, Scope& scope) {
  if (!id.valid()) {
    return {};
  }
  const Expr& expr = ast[id];
  if (!spend(expr.span)) {
    return {};
  }
  if (depth_ >= kDeepest) {
    return too_deep(expr.span);
  }
  ++depth_;
  Datum value = eval_node(ast, expr, scope);
  --depth_;
  steps_ += static_cast<int64_t>(value.text.size() / 8);  // a long string costs more steps, since it is copied
  value.span = expr.span;
  return value;
}

Datum Evaluator::too_deep(Span at) {
  exhausted_ = true;
  return refuse("XG0106", at, "blocks, constants and expressions nest too deeply", "the bound is reached here",
                {"give inner parts names of their own, or call fewer blocks from within blocks"});
}

Datum Evaluator::recurs(Span at, std::string message) {
  return refuse("XG0208", at, std::move(message), "functions and blocks cannot call themselves",
                {"write `-> repeat n { ... }` to apply stages n times, or leave this call out"});
}

Datum Evaluator::eval_node(const Ast& ast, const Expr& expr, Scope& scope) {
  switch (expr.kind) {
    case ExprKind::kError:
    case ExprKind::kEllipsis:
      return {};
    case ExprKind::kNumber: {
      const Number& number = ast.numbers[expr.literal];
      if (number.is_guess) {
        return {};
      }
      if (const auto whole = number.whole_in_base()) {
        return make_exact({*whole, 1}, number.dimension());
      }
      return make_real(number.in_base(), number.dimension());
    }
    case ExprKind::kString:
      return make_string(ast.strings[expr.literal]);
    case ExprKind::kBool:
      return make_bool(expr.flag);
    case ExprKind::kAuto:
      return make_plain(DatumKind::kAuto);
    case ExprKind::kNone:
      return make_plain(DatumKind::kNone);
    case ExprKind::kName:
      return eval_name(expr.name, scope);
    case ExprKind::kTuple:
    case ExprKind::kList:
      return eval_items(ast, expr, scope);
    case ExprKind::kCall:
      return eval_call_expr(ast, expr, scope, {});
    case ExprKind::kIndex:
      return eval_index(ast, expr, scope);
    case ExprKind::kField:
      return eval_field(ast, expr, scope);
    case ExprKind::kUnary:
      return eval_unary(ast, expr, scope);
    case ExprKind::kBinary:
      return eval_binary(ast, expr, scope);
    case ExprKind::kRange:
      return eval_range(ast, expr, scope);
    case ExprKind::kIf: {
      const Datum value = eval(ast, expr.condition, scope);
      if (value.kind == DatumKind::kScalar) {
        const Datum yes = eval(ast, expr.lhs, scope);
        return scalar_choice(value, yes, eval(ast, expr.rhs, scope), expr.span);
      }
      const auto taken = truth_of(value);
      return taken ? eval(ast, *taken ? expr.lhs : expr.rhs, scope) : Datum();
    }
    case ExprKind::kPipe: {
      recorded_.skipped = {};
      Datum value = eval(ast, expr.lhs, scope);
      const bool named = ast[expr.lhs].kind == ExprKind::kName;
      Datum result = eval_stages(std::move(value), ast, ast[expr.stages], scope);
      if (recorded_.skipped && named) {
        recorded_.skipped.input = std::string(ast[expr.lhs].name.text);
      }
      return result;
    }
  }
  return {};
}

Datum Evaluator::eval_index(const Ast& ast, const Expr& expr, Scope& scope) {
  const Expr& lhs = ast[expr.lhs];
  const bool typed =
      (lhs.kind == ExprKind::kName && parse_dtype(lhs.name.text) && scope.find(lhs.name.text) == nullptr);
  if (typed) {
    return eval_type_input(ast, expr, scope);
  }
  const Datum value = eval(ast, expr.lhs, scope);
  const auto items = ast[expr.items];
  if (value.is_error()) {
    return value;
  }
  if ((value.kind != DatumKind::kList && value.kind != DatumKind::kTuple) || items.size() != 1) {
    return refuse("XG0304", expr.span, {"{} cannot be indexed", kind_text(value)}, "",
                  {value.kind == DatumKind::kTensor ? "`x -> take(i)` and `x -> slice(axis, begin, end)` cut tensors"
                                                    : "an index takes one item of a list or a tuple: sizes[0]"});
  }
  const Datum index = eval(ast, items[0], scope);
  const auto at = whole_number(index);
  if (index.is_error()) {
    return index;
  }
  if (!at || *at < 0 || *at >= static_cast<int64_t>(value.items->size())) {
    return refuse("XG0304", index.span, {"there is no item {} of {}", to_text(index), value.items->size()}, "",
                  {value.items->empty()
                       ? "an empty list has no items"
                       : fmt::format("items are counted from 0: write a number of 0 to {}", value.items->size() - 1)});
  }
  return (*value.items)[static_cast<size_t>(*at)];
}

// In a test, an expression such as `f32[N, 3, 224, 224]` makes an input of that type.
Datum Evaluator::eval_type_input(const Ast& ast, const Expr& expr, Scope& scope) {
  if (!in_test_) {
    return refuse("XG0220", expr.span, "a tensor type is not a value", "only `test` blocks create tensors",
                  {"declare it: input NAME: TYPE in a model, a parameter NAME: TYPE in a block"});
  }
  TensorType type{.dtype = *parse_dtype(ast[expr.lhs].name.text)};
  for (const ExprId item : ast[expr.items]) {
    const auto dim = dimension(ast, item, scope);
    if (!dim) {
      return {};
    }
    type.dims.push_back(*dim);
  }
  return make_tensor(work_.graph.add_input("input", std::move(type)));
}

Datum Evaluator::make_list(DatumKind kind, std::vector<Datum> items, Span at) {
  Datum made = make_items(kind, std::move(items));
  if (made.weight > kHeaviest || made.depth > kDeepestList) {
    return refuse("XG0216", at, "this list is too large",
                  {"{} items, {} lists within one another", made.weight, made.depth},
                  {"make it smaller: at most {} items and a depth of {}", kHeaviest, kDeepestList});
  }
  return made;
}

Datum Evaluator::eval_items(const Ast& ast, const Expr& expr, Scope& scope) {
  std::vector<Datum> items;
  for (const ExprId item : ast[expr.items]) {
    items.push_back(eval(ast, item, scope));
    if (items.back().is_error()) {
      return {};
    }
  }
  return make_list(expr.kind == ExprKind::kTuple ? DatumKind::kTuple : DatumKind::kList, std::move(items), expr.span);
}

Datum Evaluator::eval_range(const Ast& ast, const Expr& expr, Scope& scope) {
  Datum from = eval(ast, expr.lhs, scope);
  Datum to = eval(ast, expr.rhs, scope);
  if (from.is_error() || to.is_error()) {
    return {};
  }
  if (!from.plain_number() || !to.plain_number()) {
    const Datum& wrong = from.plain_number() ? to : from;
    return refuse("XG0304", wrong.span, {"a range goes from number to number, not to {}", kind_text(wrong)}, "",
                  {"write numbers without a unit on both sides: 0 .. 10"});
  }
  return make_items(DatumKind::kRange, {std::move(from), std::move(to)});
}

std::optional<bool> Evaluator::condition(const Ast& ast, ExprId id, Scope& scope) {
  return truth_of(eval(ast, id, scope));
}

std::optional<bool> Evaluator::truth_of(const Datum& value) {
  if (value.is_error()) {
    return std::nullopt;
  }
  if (value.kind != DatumKind::kBool) {
    return refuse("XG0304", value.span, {"a condition is true or false, not {}", kind_text(value)}, "",
                  {"compare it with something: x > 0, x == 1"});
  }
  return value.flag;
}

Datum Evaluator::eval_unary(const Ast& ast, const Expr& expr, Scope& scope) {
  const Datum value = eval(ast, expr.lhs, scope);
  if (value.is_error()) {
    return value;
  }
  if (value.kind == DatumKind::kScalar) {
    return expr.op == Op::kNot ? scalar_choice(value, make_bool(false), make_bool(true), expr.span)
                               : make_scalar(scalars_->make(ScalarOp::kNeg, value.scalar));
  }
  if (expr.op == Op::kNot) {
    if (value.kind != DatumKind::kBool) {
      return refuse("XG0304", value.span, {"`not` takes true or false, not {}", kind_text(value)}, "",
                    {"compare it with something: not x > 0, x != 1"});
    }
    return make_bool(!value.flag);
  }
  if (is_of_params(value)) {
    return map_of({value}, "neg", expr.span, [&](const std::vector<Datum>& sides) {
      return make_scalar(scalars_->make(ScalarOp::kNeg, sides[0].scalar));
    });
  }
  if (value.kind == DatumKind::kTensor) {
    const OpDef* op = options_.ops->find("neg");
    if (op == nullptr || refuse_sharded(value, expr.span)) {
      return {};
    }
    return apply(*op, {value}, {}, {}, expr.span);
  }
  if (!value.number()) {
    return refuse("XG0304", value.span, {"`-` takes a number or a tensor, not {}", kind_text(value)}, "",
                  {"leave the `-` out"});
  }
  return value.kind == DatumKind::kExact ? make_exact({-value.exact.num, value.exact.den}, value.dimension)
                                         : make_real(-value.real, value.dimension);
}

// Evaluates `and` and `or`. The right side is evaluated only if the left side does not decide the result.
Datum Evaluator::eval_logic(const Ast& ast, const Expr& expr, Scope& scope) {
  const Datum left = eval(ast, expr.lhs, scope);
  if (left.kind == DatumKind::kScalar) {
    return scalar_binary(expr.op, left, eval(ast, expr.rhs, scope), expr.span);
  }
  const auto known = truth_of(left);
  if (!known || *known == (expr.op == Op::kOr)) {
    return known ? make_bool(*known) : Datum();
  }
  const Datum right = eval(ast, expr.rhs, scope);
  if (right.kind == DatumKind::kScalar) {
    return scalar_binary(expr.op, left, right, expr.span);
  }
  const auto decided = truth_of(right);
  return decided ? make_bool(*decided) : Datum();
}

Datum Evaluator::eval_binary(const Ast& ast, const Expr& expr, Scope& scope) {
  if (expr.op == Op::kAnd || expr.op == Op::kOr) {
    return eval_logic(ast, expr, scope);
  }
  const Datum a = eval(ast, expr.lhs, scope);
  const Datum b = eval(ast, expr.rhs, scope);
  if (a.is_error() || b.is_error()) {
    return {};
  }
  if (a.kind == DatumKind::kScalar || b.kind == DatumKind::kScalar) {
    return scalar_binary(expr.op, a, b, expr.span);
  }
  if (a.has_elements() || b.has_elements()) {
    return tensor_arithmetic(expr.op, a, b, ast, expr, scope);
  }
  Problem problem;
  Datum value = constant_binary(expr.op, a, b, problem);
  return value.is_error() ? refuse(problem.code, expr.name.span, std::move(problem.message),
                                   {"{} {} {}", to_text(a), text_of(expr.op), to_text(b)}, {problem.fix})
                          : value;
}

}  // namespace xrun::lang
