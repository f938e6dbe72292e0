// `a + b` on tensors: finds the operator, and explains why two shapes do not match.
// Tests: tests/lang/check_test.cpp, tests/lang/check_golden_test.cpp
#include <algorithm>
#include <fmt/format.h>

#include "lang/elaborate/evaluator.h"

namespace xrun::lang {
namespace {

// The tensor operator for a sign, and its verb in messages. For a sign without an operator, arithmetic_of returns null.
struct Arithmetic {
  Op op;
  std::string_view name;
  std::string_view verb;
};

const Arithmetic* arithmetic_of(Op op) {
  static constexpr Arithmetic kAll[] = {{Op::kAdd, "add", "add"},
                                        {Op::kSub, "sub", "subtract"},
                                        {Op::kMul, "mul", "multiply"},
                                        {Op::kDiv, "div", "divide"}};
  const auto found = std::ranges::find(kAll, op, &Arithmetic::op);
  return found == std::end(kAll) ? nullptr : found;
}

// The name of the node for a sign that has no operator of its own.
std::string_view word_of(Op op) {
  return op == Op::kPow ? "power" : op == Op::kMod ? "remainder" : op == Op::kFloorDiv ? "quotient" : "compare";
}

std::string dims_text(const TensorType& type) {
  std::string text = to_text(type);
  return type.sharded ? text : text.substr(text.find('['));
}

struct Difference {
  std::string why;  // "256 and 64 channels", "112 and 56 in dimension 2"; empty: the shapes match
  std::string fix;  // how to make the shapes match
};

Difference difference(const TensorType& a, const TensorType& b) {
  if (a.rank() != b.rank()) {
    return {fmt::format("{} and {} dimensions", a.rank(), b.rank()),
            "ranks must match: `reshape` adds dimensions of 1"};
  }
  for (size_t i = 0; i < a.dims.size(); ++i) {
    if (a.dims[i] == b.dims[i] || a.dims[i] == 1 || b.dims[i] == 1) {
      continue;
    }
    const auto text = [](int64_t dim) { return dim == kBatch ? std::string("N") : std::to_string(dim); };
    const std::string one = text(a.dims[i]);
    const std::string other = text(b.dims[i]);
    if (i == 1 && a.rank() == 4) {
      return {
          fmt::format("{} and {} channels", one, other),
          fmt::format("make them equal: `conv({}, 1)` on the right side, or `conv({}, 1)` on the left", one, other)};
    }
    return {
        fmt::format("{} and {} in dimension {}", one, other, i),
        a.rank() == 4 ? "make them equal: stride and pad of `conv` and pools decide the height and width"
        : i + 1 == a.dims.size() && i > 0
            ? fmt::format("make them equal: `linear({})` on the right side, or `linear({})` on the left", one, other)
            : "make them equal, or one of them 1"};
  }
  return {};
}

}  // namespace

Datum Evaluator::tensor_arithmetic(Op op, const Datum& a, const Datum& b, const Ast& ast, const Expr& expr,
                                   Scope& scope) {
  const std::string sign = "`" + std::string(text_of(op)) + "`";
  const Arithmetic* known = arithmetic_of(op);
  const OpDef* tensor_op = known != nullptr ? options_.ops->find(known->name) : nullptr;
  const bool a_tensor = a.kind == DatumKind::kTensor;
  const bool b_tensor = b.kind == DatumKind::kTensor;
  if (!(a.has_elements() || a.plain_number()) || !(b.has_elements() || b.plain_number())) {
    return refuse("XG0304", expr.name.span, {"{} does not go with {} and {}", sign, kind_text(a), kind_text(b)}, "",
                  {"put a tensor or a plain number on each side"});
  }
  if ((a_tensor && refuse_sharded(a, expr.span)) || (b_tensor && refuse_sharded(b, expr.span))) {
    return {};
  }
  if (tensor_op == nullptr || is_of_params(a) || is_of_params(b)) {
    return map_of({a, b}, known != nullptr ? known->name : word_of(op), expr.span,
                  [&](const std::vector<Datum>& sides) { return scalar_binary(op, sides[0], sides[1], expr.span); });
  }
  if (a_tensor && b_tensor) {
    const TensorType& left = type_of(a);
    const TensorType& right = type_of(b);
    if (Difference found = difference(left, right); !found.why.empty()) {
      Diagnostic d =
          fault("XG0301", expr.name.span,
                {"cannot {} tensors of different {}", known->verb, left.rank() == right.rank() ? "shapes" : "ranks"},
                std::move(found.why), {std::move(found.fix)});
      d.secondary.push_back({a.span, dims_text(left)});
      d.secondary.push_back({b.span, dims_text(right)});
      explain_skipped(d, ast, expr, scope);
      report(std::move(d));
      return {};
    }
    return apply(*tensor_op, {a, b}, {}, {}, expr.span);
  }
  return a_tensor ? number_arithmetic(op, a, b.as_double(), true, expr)
                  : number_arithmetic(op, b, a.as_double(), false, expr);
}

// Combines a tensor with a number. `tensor_first`: the tensor is the left side.
Datum Evaluator::number_arithmetic(Op op, const Datum& tensor, double number, bool tensor_first, const Expr& expr) {
  const auto refuse_number = [&] {
    return refuse("XG0304", expr.name.span, {"`{}` needs tensors on both sides", text_of(op)}, "",
                  {"write a tensor in the place of the number"});
  };
  // A tensor combined with a number is one operator with two constants, scale * x + shift. For number / x it is applied
  // to 1 / x.
  const OpDef* affine = options_.ops->find("scale_shift");
  if (affine == nullptr) {
    return refuse_number();
  }
  const auto scaled = [&](double scale, double shift) {
    return apply(*affine, {tensor}, Attrs{{"scale", scale}, {"shift", shift}}, {}, expr.span);
  };
  switch (op) {
    case Op::kAdd:
      return scaled(1, number);
    case Op::kSub:
      return tensor_first ? scaled(1, -number) : scaled(-1, number);
    case Op::kMul:
      return scaled(number, 0);
    default:
      break;
  }
  if (tensor_first) {
    return number == 0 ? refuse("XG0307", expr.name.span, "division by zero", "", {"divide by a number other than 0"})
                       : scaled(1 / number, 0);
  }
  const OpDef* power = options_.ops->find("power");
  if (power == nullptr) {
    return refuse_number();
  }
  const Datum inverse = apply(*power, {tensor}, Attrs{{"exponent", -1.0}}, {}, expr.span);
  return inverse.is_error() || number == 1
             ? inverse
             : apply(*affine, {inverse}, Attrs{{"scale", number}, {"shift", 0.0}}, {}, expr.span);
}

// Explains the usual cause of shapes that do not match: an operand has passed unchanged through an `if` stage whose
// condition was false. The fix makes the condition true whenever the declared numbers of channels differ.
void Evaluator::explain_skipped(Diagnostic& d, const Ast& ast, const Expr& expr, Scope& scope) {
  for (const ExprId side : {expr.lhs, expr.rhs}) {
    const Expr& operand = ast[side];
    const Local* local = operand.kind == ExprKind::kName ? scope.find(operand.name.text) : nullptr;
    if (local == nullptr || !local->skipped) {
      continue;
    }
    const std::string name(operand.name.text);
    d.secondary.push_back({local->skipped.condition,
                           local->skipped.input.empty()
                               ? "false here, so `" + name + "` is what flowed in"
                               : fmt::format("false here, so `{}` is `{}` itself", name, local->skipped.input)});
    if (active_.empty() || active_.back()->results.count != 1) {
      continue;
    }
    // The block may declare its result, as [N, 4 * width, ...] for x: [N, C, ...].
    const Decl& block = *active_.back();
    const auto result = ast[ast[block.results].front().dims];
    for (const Param& param : ast[block.params]) {
      const auto dims = ast[param.type.dims];
      if (param.name.text != local->skipped.input || dims.size() < 2 || result.size() < 2) {
        continue;
      }
      const std::string_view in = sources_.text(ast[dims[1]].span);
      const std::string_view out = sources_.text(ast[result[1]].span);
      if (in == out || ast[dims[1]].kind != ExprKind::kName) {
        continue;
      }
      const Span at{local->skipped.condition.file, local->skipped.condition.begin, local->skipped.condition.begin};
      d.fixes = {replacement("project also when the channel count changes", at, {"{} != {} or ", in, out})};
    }
  }
}

}  // namespace xrun::lang
