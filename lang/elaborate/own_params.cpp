// `param` statements: tensors that a block or model owns and training changes.
#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <numeric>

#include "graph/limits.h"
#include "lang/elaborate/evaluator.h"
#include "lang/nearest.h"

namespace xrun::lang {
namespace {

// The initialisers, with the number of their arguments.
struct InitFacts {
  std::string_view name;
  size_t arguments;
};
constexpr std::array<InitFacts, 7> kInits{{{"constant", 1},
                                           {"normal", 1},
                                           {"he_normal", 0},
                                           {"xavier_normal", 0},
                                           {"lecun_normal", 0},
                                           {"zeros", 0},
                                           {"ones", 0}}};

// The terms of a product with a weight [in, out]: all dimensions but the last one.
int64_t fan_in_of(const TensorType& type) {
  return std::accumulate(type.dims.begin(), type.dims.empty() ? type.dims.end() : type.dims.end() - 1, int64_t{1},
                         std::multiplies<>());
}

}  // namespace

// param NAME: [D] = constant(1e-4)
void Evaluator::own_param(const Ast& ast, const Stmt& stmt, Scope& scope) {
  const Name& name = ast[stmt.names][0];
  const auto value = [&]() -> Datum {
    auto type = param_type(ast, stmt.type, name, scope);
    if (!type) {
      return {};
    }
    const auto init = initialiser(ast, stmt.value, *type, scope);
    const auto path = init ? work_.names.leaf(name.text, {}) : std::nullopt;
    if (!path || !spend(stmt.span)) {
      return {};
    }
    const ValueId made = work_.graph.add_param(*path, std::move(*type), *init, true, false, name.span);
    work_.graph.params[work_.graph.value(made).param].labelled = true;
    return make_tensor(made);
  };
  bind_local(name, value(), scope, true);
}

std::optional<TensorType> Evaluator::param_type(const Ast& ast, const Type& type, const Name& name, Scope& scope) {
  const auto refused = [&](Span at) {
    return refuse("XG0302", at, "a parameter is f32, and its dimensions are numbers", "",
                  {"write its dimensions without `N`: param {}: [64] = ones", name.text});
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

// A number, or a call of an initialiser, whose name is looked up before all others.
std::optional<Init> Evaluator::initialiser(const Ast& ast, ExprId id, const TensorType& type, Scope& scope) {
  const Expr& expr = ast[id];
  const bool is_call = expr.kind == ExprKind::kCall && ast[expr.lhs].kind == ExprKind::kName;
  const Name* word = is_call ? &ast[expr.lhs].name : expr.kind == ExprKind::kName ? &expr.name : nullptr;
  const auto known = word == nullptr ? kInits.end() : std::ranges::find(kInits, word->text, &InitFacts::name);
  const auto number = [&](ExprId from) -> std::optional<double> {
    const Datum value = eval(ast, from, scope);
    if (value.is_error()) {
      return std::nullopt;
    }
    if (!value.plain_number()) {
      return refuse("XG0304", ast[from].span, {"a first value is a plain number, not {}", kind_text(value)}, "",
                    {"write a number, or one of constant(x), normal(deviation), he_normal(), zeros, ones"});
    }
    if (!(std::fabs(value.as_double()) <= std::numeric_limits<float>::max())) {
      return refuse("XG0303", ast[from].span, "a first value of this size is none of f32", "",
                    {"write a number of at most 3.4e38"});
    }
    return value.as_double();
  };
  if (known == kInits.end()) {
    if (is_call) {
      const auto names = names_of(kInits, [](const InitFacts& init) { return init.name; });
      return refuse("XG0201", word->span, {"there is no initialiser `{}`", word->text}, "unknown name",
                    did_you_mean(word->text, names, word->span,
                                 {"write one of constant(x), normal(deviation), he_normal(), zeros, ones"}));
    }
    const auto value = number(id);
    return value ? std::optional(Init{.value = *value}) : std::nullopt;
  }
  const auto args = is_call ? ast[expr.args] : std::span<const Arg>();
  if (args.size() != known->arguments) {
    return refuse("XG0204", expr.span,
                  {"`{}` takes {}", known->name, known->arguments == 0 ? "no arguments" : "one number"}, "",
                  {"write {}", known->name == "normal"     ? "its standard deviation: normal(0.02)"
                               : known->name == "constant" ? "the value: constant(1e-4)"
                                                           : known->name});
  }
  const auto argument = args.empty() ? std::optional(known->name == "ones" ? 1.0 : 0.0) : number(args[0].value);
  if (!argument) {
    return std::nullopt;
  }
  if (known->name == "he_normal") {
    return Init{.kind = Init::kHeNormal, .fan_in = fan_in_of(type)};
  }
  if (known->name == "xavier_normal" || known->name == "lecun_normal") {
    const auto in = static_cast<double>(fan_in_of(type));
    const auto out = static_cast<double>(type.dims.back());
    const double variance = known->name == "lecun_normal" ? 1 / in : 2 / (in + out);
    return Init{.kind = Init::kNormal, .value = std::sqrt(variance)};
  }
  if (known->name == "normal") {
    if (*argument < 0) {
      return refuse("XG0303", args[0].span,
                    {"a standard deviation is 0 or more, not {}", to_text(AttrValue(*argument))}, "",
                    {"write a number above 0: normal(0.02)"});
    }
    return Init{.kind = Init::kNormal, .value = *argument};
  }
  return Init{.value = *argument};
}

}  // namespace xrun::lang
