// `param` and `state` statements: tensors that a block or model owns, and their initial values.
// Tests: tests/lang/elaborate/bodies/pointwise_test.cpp
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <numeric>

#include "graph/initialiser.h"
#include "graph/limits.h"
#include "lang/elaborate/evaluator.h"
#include "lang/text/nearest.h"

namespace xrun::lang {
namespace {

// The fan-in of a weight [in, out]: the product of all dimensions but the last.
int64_t fan_in_of(const TensorType& type) {
  return std::accumulate(type.dims.begin(), type.dims.empty() ? type.dims.end() : type.dims.end() - 1, int64_t{1},
                         std::multiplies<>());
}

}  // namespace

// Adds the tensor of a `param` or `state` statement to the graph:
//   param NAME: [D] = constant(1e-4)
//   state NAME: [D] = 0
void Evaluator::own_tensor(const Ast& ast, const Stmt& stmt, Scope& scope) {
  const Name& name = ast[stmt.names][0];
  const bool is_state = stmt.kind == StmtKind::kState;
  const auto value = [&]() -> Datum {
    auto type = param_type(ast, stmt, scope);
    if (!type) {
      return {};
    }
    const auto init = initialiser(ast, stmt.value, *type, scope);
    const auto path = init ? work_.names.leaf(name.text, {}) : std::nullopt;
    if (!path || !spend(stmt.span)) {
      return {};
    }
    const ValueId made = work_.graph.add_param(*path, std::move(*type), *init, !is_state, false, name.span);
    work_.graph.params[work_.graph.value(made).param].labelled = true;
    return make_tensor(made);
  };
  if (bind_local(name, value(), scope, true)) {
    scope.locals[name.text].is_state = is_state;
  }
}

std::optional<TensorType> Evaluator::param_type(const Ast& ast, const Stmt& stmt, Scope& scope) {
  const Type& type = stmt.type;
  const Name& name = ast[stmt.names][0];
  const auto refused = [&](Span at) {
    const bool is_state = stmt.kind == StmtKind::kState;
    return refuse("XG0302", at.valid() ? at : name.span,
                  {"a {} is f32, and its dimensions are numbers", is_state ? "state of a block" : "parameter"}, "",
                  {"write its dimensions without `N`: {} {}: [64] = {}", is_state ? "state" : "param", name.text,
                   is_state ? "0" : "ones"});
  };
  TensorType made{.dtype = DType::kF32};
  if ((type.name && type.name.text != "f32") || type.argument.valid() || !type.has_dims) {
    return refused(type.span);
  }
  double elements = 1;
  for (const ExprId id : ast[type.dims]) {
    const auto dim = ast[id].kind == ExprKind::kEllipsis ? std::optional(kBatch) : dimension(ast, id, scope);
    if (!dim) {
      return std::nullopt;
    }
    if (*dim < 1) {
      return refused(ast[id].span);
    }
    made.dims.push_back(*dim);
    elements *= static_cast<double>(*dim);
  }
  if (made.dims.empty() || made.dims.size() > kMostDims || elements > static_cast<double>(kMostElementsOfWeight)) {
    return refused(type.span);
  }
  return made;
}

// Reads the initial value: a number, or a call of an initialiser. The name of an initialiser precedes equal names of
// the file.
std::optional<Init> Evaluator::initialiser(const Ast& ast, ExprId id, const TensorType& type, Scope& scope) {
  const Expr& expr = ast[id];
  const bool is_call = expr.kind == ExprKind::kCall && ast[expr.lhs].kind == ExprKind::kName;
  const Name* word = is_call ? &ast[expr.lhs].name : expr.kind == ExprKind::kName ? &expr.name : nullptr;
  const auto names = names_of(init_forms(), [](std::string_view form) { return form.substr(0, form.find('(')); });
  const bool known = word != nullptr && std::ranges::count(names, word->text) > 0;
  const auto number = [&](ExprId from) -> std::optional<double> {
    const Datum value = eval(ast, from, scope);
    if (value.is_error()) {
      return std::nullopt;
    }
    if (!value.plain_number()) {
      return refuse("XG0304", ast[from].span, {"an initial value is a plain number, not {}", kind_text(value)}, "",
                    {"write a number, or one of {}", fmt::join(init_forms(), ", ")});
    }
    if (!(std::fabs(value.as_double()) <= std::numeric_limits<float>::max())) {
      return refuse("XG0303", ast[from].span, "an initial value of this size is not a number of f32", "",
                    {"write a number of at most 3.4e38"});
    }
    return value.as_double();
  };
  if (!known && !is_call) {
    const auto value = number(id);
    return value ? std::optional(Init{.value = *value}) : std::nullopt;
  }
  if (!known) {
    // Other frameworks name initialisers after other authors.
    std::string ours(word->text);
    for (const auto& [theirs, name] : {std::pair{"kaiming_", "he_"}, std::pair{"glorot_", "xavier_"}}) {
      ours = ours.starts_with(theirs) ? name + ours.substr(std::string_view(theirs).size()) : ours;
    }
    if (std::ranges::count(names, ours) > 0) {
      return refuse("XG0201", word->span, {"there is no initialiser `{}`", word->text}, "unknown name",
                    replacement(fmt::format("`{}` is `{}` here", word->text, ours), word->span, ours, true));
    }
    return refuse("XG0201", word->span, {"there is no initialiser `{}`", word->text}, "unknown name",
                  did_you_mean(word->text, names, word->span, {"write one of {}", fmt::join(init_forms(), ", ")}));
  }
  const auto args = is_call ? ast[expr.args] : std::span<const Arg>();
  std::string text(word->text);
  for (const Arg& arg : args) {
    const auto argument = number(arg.value);
    if (!argument) {
      return std::nullopt;
    }
    text += fmt::format("{}{}", &arg == args.data() ? "(" : ", ", to_text(AttrValue(*argument)));
  }
  const Fans fans{.in = fan_in_of(type), .out = type.dims.back()};
  const auto made = find_init(args.empty() ? text : text + ")", fans);
  if (!made.ok()) {
    const bool is_argument = made.error().code == "XG0303" && !args.empty();
    return refuse(made.error().code.c_str(), is_argument ? ast[args[0].value].span : expr.span, made.error().message,
                  "", {made.error().help});
  }
  return *made;
}

}  // namespace xrun::lang
