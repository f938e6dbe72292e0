// Tensor types: the values of dimensions and the types of inputs (docs/reference/language.md, "Types and dimensions").
// Tests: tests/lang/check_golden_test.cpp, tests/lang/nothing_ignored_test.cpp
#include <algorithm>
#include <fmt/format.h>

#include "lang/elaborate/evaluator.h"

namespace xrun::lang {
namespace {

constexpr int64_t kLargestDim = int64_t{1} << 48;

std::string dim_text(int64_t dim) { return dim == kBatch ? "N" : dim == kPerBlock ? "G" : std::to_string(dim); }

// Collects the names in an expression in order, each once.
void collect_names(const Ast& ast, ExprId id, std::vector<std::string_view>& names) {
  if (!id.valid()) {
    return;
  }
  const Expr& expr = ast[id];
  if (expr.kind == ExprKind::kName && std::find(names.begin(), names.end(), expr.name.text) == names.end()) {
    names.push_back(expr.name.text);
  }
  collect_names(ast, expr.lhs, names);
  collect_names(ast, expr.rhs, names);
  for (const Arg& arg : ast[expr.args]) {
    collect_names(ast, arg.value, names);
  }
}

}  // namespace

// The value of a dimension; kBatch for N. Reports any other expression and returns nullopt.
std::optional<int64_t> Evaluator::dimension(const Ast& ast, ExprId id, Scope& scope, std::span<const ExprId> siblings) {
  const Datum value = eval(ast, id, scope);
  if (value.is_error()) {
    return std::nullopt;
  }
  if (value.kind == DatumKind::kBatch) {
    return kBatch;
  }
  const Span at = ast[id].span;
  if (!value.plain_number()) {
    return refuse("XG0304", at, {"a dimension is a whole number, not {}", kind_text(value)}, "",
                  {"write a number, or a name that stands for one"});
  }
  const double shown = value.as_double();
  if (!value.whole() && !(value.kind == DatumKind::kReal && to_int64(shown))) {
    std::string message = "dimension is not a whole number: ";
    const Expr& expr = ast[id];
    if (expr.kind == ExprKind::kBinary && expr.op == lang::Op::kDiv) {
      const Datum over = eval(ast, expr.lhs, scope);
      const Datum under = eval(ast, expr.rhs, scope);
      message += to_text(over) + " / " + to_text(under) + " = ";
    }
    message += fmt::format("{:.6g}", shown);
    std::vector<std::string_view> names;
    collect_names(ast, id, names);
    std::string label;
    for (const std::string_view name : names) {
      if (Local* local = scope.find(name)) {
        label += (label.empty() ? "" : ", ") + std::string(name) + " = " + to_text(local->value);
      }
    }
    // The fix rounds all divisions in the type, since a division that is left would fail at another image size.
    Fix fix{.title = "write what the layer does"};
    for (const ExprId sibling : siblings.empty() ? std::span<const ExprId>(&id, 1) : siblings) {
      if (ast[sibling].kind == ExprKind::kBinary && ast[sibling].op == lang::Op::kDiv) {
        fix.edits.push_back({ast[sibling].span, fmt::format("ceil({})", sources_.text(ast[sibling].span))});
      }
    }
    if (fix.edits.empty()) {
      fix.title = "say how to round: `//`, `ceil(..)` or `floor(..)`";
    }
    report(fault("XG0312", at, std::move(message), std::move(label), std::move(fix))
               .note("`/` on dimensions is exact; a strided convolution rounds up"));
    return std::nullopt;
  }
  const std::optional<int64_t> whole = value.whole() ? to_int64(value) : to_int64(shown);
  if (!whole || *whole < 1 || *whole > kLargestDim) {
    return refuse("XG0302", at, {"a dimension of {} cannot be", to_text(value)}, "",
                  {"write a number of 1 or more, up to 2^48"});
  }
  return whole;
}

// The type of an input; nullopt if a fault was reported.
std::optional<TensorType> Evaluator::tensor_type(const Ast& ast, const Type& type, Scope& scope) {
  TensorType made;
  if (!type.span.valid()) {
    return std::nullopt;  // the missing type was reported
  }
  if (!type.has_dims) {
    return refuse("XG0303", type.span, "an input is a tensor", "no dimensions here",
                  {"write them after the element type: f32[N, 3, 224, 224]"});
  }
  if (type.name.text == "index") {
    const auto classes = type.argument.valid() ? dimension(ast, type.argument, scope) : std::nullopt;
    if (!classes || *classes < 0) {
      return std::nullopt;  // `N` was reported at its declaration
    }
    made.classes = *classes;
    made.dtype = *classes > INT32_MAX ? DType::kI64 : DType::kI32;
  } else if (type.name) {
    const auto dtype = parse_dtype(type.name.text);
    if (!dtype) {
      return std::nullopt;  // the fault was reported at its declaration
    }
    made.dtype = *dtype;
  }
  double elements = 1;
  for (const ExprId id : ast[type.dims]) {
    if (ast[id].kind == ExprKind::kEllipsis) {
      return refuse("XG0302", ast[id].span, "an input has all of its dimensions", "`...` stands for any dimensions",
                    {"write a number for each"});
    }
    if (made.dims.empty() && is_other_batch(ast, id, scope)) {
      return refuse("XG0302", ast[id].span, "the first dimension of an input is the batch, `N`", "",
                    replacement("write `N`", ast[id].span, "N", true));
    }
    const auto dim = dimension(ast, id, scope);
    if (!dim) {
      return std::nullopt;
    }
    if ((*dim == kBatch) != made.dims.empty()) {
      if (!made.dims.empty()) {
        return refuse("XG0302", ast[id].span, "only the first dimension is the batch, `N`", "",
                      {"write a number here"});
      }
      const Span at = ast[id].span;
      report(fault("XG0302", at, "the first dimension of an input is the batch, `N`", {"this is {}", dim_text(*dim)},
                   type.dims.count == 1 ? replacement("put it first", {at.file, at.begin, at.begin}, "N, ")
                                        : replacement("write `N` in its place, or before it", at, "N"))
                 .note("`batch` in `train` sets the number of samples in a batch"));
      return std::nullopt;
    }
    made.dims.push_back(*dim);
    elements *= *dim == kBatch ? 1 : static_cast<double>(*dim);
  }
  if (made.dims.empty() || elements > 0x1.0p40) {
    return refuse("XG0302", type.span,
                  made.dims.empty() ? "an input has a batch dimension" : "this tensor is too large", "",
                  {made.dims.empty() ? "write it first: [N, 64]" : "make a dimension smaller: no machine holds it"});
  }
  return made;
}

}  // namespace xrun::lang
