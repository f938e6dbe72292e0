#include "lang/constant.h"

#include <algorithm>
#include <cmath>

#include "graph/base/check.h"

namespace xrun::lang {
namespace {

constexpr size_t kLongestString = 65'536;
constexpr int64_t kLargestPower = 4096;

Datum problem_with(std::string& problem, std::string text) {
  problem = std::move(text);
  return {};
}

Datum exact_or(std::optional<Rational> value, Dimension dimension, std::string& problem) {
  return value ? make_exact(*value, dimension) : problem_with(problem, "the result is too large");
}

std::string mismatch(Op op, const Datum& a, const Datum& b) {
  return "`" + std::string(text_of(op)) + "` does not go with " + kind_text(a) + " and " + kind_text(b);
}

Datum power(const Datum& a, const Datum& b, std::string& problem) {
  if (a.dimension != Dimension::kPlain || b.dimension != Dimension::kPlain) {
    return problem_with(problem, mismatch(Op::kPow, a, b));
  }
  if (a.kind == DatumKind::kExact && b.whole() && b.exact.num >= -kLargestPower && b.exact.num <= kLargestPower) {
    const bool inverse = b.exact.num < 0;
    if (inverse && a.exact.num == 0) {
      return problem_with(problem, "division by zero");
    }
    std::optional<Rational> result = Rational{1, 1};
    for (Int128 i = 0; result && i < (inverse ? -b.exact.num : b.exact.num); ++i) {
      result = multiply(*result, a.exact);
    }
    if (result && inverse) {
      result = divide({1, 1}, *result);
    }
    return exact_or(result, Dimension::kPlain, problem);
  }
  return make_real(std::pow(a.as_double(), b.as_double()));
}

Datum multiply_or_divide(Op op, const Datum& a, const Datum& b, std::string& problem) {
  const bool times = op == Op::kMul;
  Dimension dimension = a.dimension;
  if (b.dimension != Dimension::kPlain) {
    // A quantity over one of its kind is a plain number; a plain number times a quantity is one of its kind.
    if (times && a.dimension == Dimension::kPlain) {
      dimension = b.dimension;
    } else if (!times && a.dimension == b.dimension) {
      dimension = Dimension::kPlain;
    } else {
      return problem_with(problem, mismatch(op, a, b));
    }
  }
  if (!times && b.as_double() == 0) {
    return problem_with(problem, "division by zero");
  }
  if (a.kind == DatumKind::kExact && b.kind == DatumKind::kExact) {
    return exact_or(times ? multiply(a.exact, b.exact) : divide(a.exact, b.exact), dimension, problem);
  }
  return make_real(times ? a.as_double() * b.as_double() : a.as_double() / b.as_double(), dimension);
}

Datum floor_divide(Op op, const Datum& a, const Datum& b, std::string& problem) {
  if (a.dimension != b.dimension && b.dimension != Dimension::kPlain) {
    return problem_with(problem, mismatch(op, a, b));
  }
  if (b.as_double() == 0) {
    return problem_with(problem, "division by zero");
  }
  const Dimension dimension = op == Op::kMod || b.dimension == Dimension::kPlain ? a.dimension : Dimension::kPlain;
  if (a.kind == DatumKind::kExact && b.kind == DatumKind::kExact) {
    const auto ratio = divide(a.exact, b.exact);
    if (!ratio) {
      return problem_with(problem, "the result is too large");
    }
    const Rational whole{floor_of(*ratio), 1};
    if (op == Op::kFloorDiv) {
      return make_exact(whole, dimension);
    }
    const auto product = multiply(whole, b.exact);
    return product ? exact_or(subtract(a.exact, *product), dimension, problem)
                   : problem_with(problem, "the result is too large");
  }
  const double whole = std::floor(a.as_double() / b.as_double());
  return make_real(op == Op::kFloorDiv ? whole : a.as_double() - whole * b.as_double(), dimension);
}

Datum sum(Op op, const Datum& a, const Datum& b, std::string& problem) {
  if (op == Op::kAdd && a.kind == DatumKind::kString && b.kind == DatumKind::kString) {
    if (a.text.size() + b.text.size() > kLongestString) {
      return problem_with(problem, "the joined string is longer than " + std::to_string(kLongestString) + " bytes");
    }
    return make_string(a.text + b.text);
  }
  if (!a.number() || !b.number() || a.dimension != b.dimension) {
    return problem_with(problem, mismatch(op, a, b));
  }
  if (a.kind == DatumKind::kExact && b.kind == DatumKind::kExact) {
    return exact_or(op == Op::kAdd ? add(a.exact, b.exact) : subtract(a.exact, b.exact), a.dimension, problem);
  }
  return make_real(op == Op::kAdd ? a.as_double() + b.as_double() : a.as_double() - b.as_double(), a.dimension);
}

Datum comparison(Op op, const Datum& a, const Datum& b, std::string& problem) {
  if (op == Op::kEq || op == Op::kNe) {
    const bool comparable = a.kind == b.kind || (a.number() && b.number() && a.dimension == b.dimension) ||
                            a.kind == DatumKind::kNone || b.kind == DatumKind::kNone;
    if (!comparable || a.kind == DatumKind::kTensor || b.kind == DatumKind::kTensor) {
      return problem_with(problem, mismatch(op, a, b));
    }
    return make_bool(equal(a, b) == (op == Op::kEq));
  }
  int order = 0;
  if (a.number() && b.number() && a.dimension == b.dimension) {
    std::optional<int> exact;
    if (a.kind == DatumKind::kExact && b.kind == DatumKind::kExact) {
      exact = compare(a.exact, b.exact);
    }
    order = exact ? *exact : a.as_double() < b.as_double() ? -1 : a.as_double() > b.as_double() ? 1 : 0;
  } else if (a.kind == DatumKind::kString && b.kind == DatumKind::kString) {
    order = a.text.compare(b.text);
  } else {
    return problem_with(problem, mismatch(op, a, b));
  }
  return make_bool(op == Op::kLt ? order < 0 : op == Op::kLe ? order <= 0 : op == Op::kGt ? order > 0 : order >= 0);
}

Datum rounded(bool up, const Datum& value, std::string& problem) {
  if (!value.number()) {
    return problem_with(problem, "a number is expected, not " + kind_text(value));
  }
  if (value.kind == DatumKind::kExact) {
    return make_exact({up ? ceil_of(value.exact) : floor_of(value.exact), 1}, value.dimension);
  }
  const double whole = up ? std::ceil(value.real) : std::floor(value.real);
  // Beyond 2^62 a float is no longer a count of anything.
  if (!(std::fabs(whole) < 0x1.0p62)) {
    return problem_with(problem, "the result is too large");
  }
  return make_exact({static_cast<Int128>(whole), 1}, value.dimension);
}

Datum extreme(bool largest, std::span<const Datum> args, std::string& problem) {
  Datum best = args[0];
  for (const Datum& arg : args) {
    const Datum better = comparison(largest ? Op::kGt : Op::kLt, arg, best, problem);
    if (better.hole()) {
      return {};
    }
    best = better.flag ? arg : best;
  }
  return best;
}

}  // namespace

Datum constant_binary(Op op, const Datum& a, const Datum& b, std::string& problem) {
  switch (op) {
    case Op::kEq:
    case Op::kNe:
    case Op::kLt:
    case Op::kLe:
    case Op::kGt:
    case Op::kGe:
      return comparison(op, a, b, problem);
    case Op::kAdd:
    case Op::kSub:
      return sum(op, a, b, problem);
    default:
      break;
  }
  if (!a.number() || !b.number()) {
    return problem_with(problem, mismatch(op, a, b));
  }
  switch (op) {
    case Op::kMul:
    case Op::kDiv:
      return multiply_or_divide(op, a, b, problem);
    case Op::kFloorDiv:
    case Op::kMod:
      return floor_divide(op, a, b, problem);
    default:
      return power(a, b, problem);
  }
}

bool is_constant_function(std::string_view name) {
  constexpr std::string_view kNames[] = {"floor", "ceil", "round", "max", "min", "abs", "sqrt", "exp", "log", "len"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

Datum constant_function(std::string_view name, std::span<const Datum> args, std::string& problem) {
  const bool many = name == "max" || name == "min";
  if (args.empty() || (!many && args.size() != 1)) {
    return problem_with(problem, "`" + std::string(name) + "` takes " + (many ? "one number or more" : "one value"));
  }
  if (many) {
    return extreme(name == "max", args, problem);
  }
  const Datum& value = args[0];
  if (name == "len") {
    if (value.kind == DatumKind::kString) {
      return make_whole(static_cast<Int128>(value.text.size()));
    }
    return value.items != nullptr ? make_whole(static_cast<Int128>(value.items->size()))
                                  : problem_with(problem, "a list is expected, not " + kind_text(value));
  }
  if (!value.number()) {
    return problem_with(problem, "a number is expected, not " + kind_text(value));
  }
  if (name == "floor" || name == "ceil") {
    return rounded(name == "ceil", value, problem);
  }
  if (name == "round") {
    const Datum half = sum(Op::kAdd, value, make_exact({1, 2}, value.dimension), problem);
    return half.hole() ? half : rounded(false, half, problem);
  }
  if (name == "abs") {
    return value.as_double() < 0 ? constant_binary(Op::kMul, value, make_whole(-1), problem) : value;
  }
  if (value.dimension != Dimension::kPlain) {
    return problem_with(problem, "a plain number is expected, not " + kind_text(value));
  }
  const double x = value.as_double();
  const double result = name == "sqrt" ? std::sqrt(x) : name == "exp" ? std::exp(x) : std::log(x);
  return std::isfinite(result) ? make_real(result)
                               : problem_with(problem, "`" + std::string(name) + "` has no value at " + to_text(value));
}

}  // namespace xrun::lang
