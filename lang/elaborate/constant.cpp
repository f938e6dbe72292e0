// Tests: tests/lang/check_test.cpp
#include "lang/elaborate/constant.h"

#include <algorithm>
#include <cmath>

namespace xrun::lang {
namespace {

constexpr size_t kLongestString = 65'536;
constexpr int64_t kLargestPower = 4096;

Datum no_result(Problem& problem, const char* code, std::string message, std::string fix) {
  problem = {code, std::move(message), std::move(fix)};
  return {};
}

Datum too_large(Problem& problem) {
  return no_result(problem, "XG0109", "the result is too large",
                   "exact numbers have up to 37 digits, and floats end at 1.8e308: write smaller numbers");
}

Datum division_by_zero(Problem& problem) {
  return no_result(problem, "XG0307", "division by zero", "divide by a number other than 0");
}

Datum mismatch(Op op, const Datum& a, const Datum& b, Problem& problem) {
  return no_result(problem, "XG0304",
                   "`" + std::string(text_of(op)) + "` does not go with " + kind_text(a) + " and " + kind_text(b),
                   "bring both sides to one kind: numbers with numbers of the same unit, strings with strings");
}

// Reports arguments that a function of numbers does not accept.
Datum not_taken(std::string message, Problem& problem) {
  return no_result(problem, "XG0304", std::move(message),
                   "give the function what it takes: one number for `floor ceil round abs sqrt exp log`, several for "
                   "`max min`, a list for `len`");
}

Datum exact_or(std::optional<Rational> value, Dimension dimension, Problem& problem) {
  return value ? make_exact(*value, dimension) : too_large(problem);
}

Datum real_or(double value, Dimension dimension, Problem& problem) {
  return std::isfinite(value) ? make_real(value, dimension) : too_large(problem);
}

Datum power(const Datum& a, const Datum& b, Problem& problem) {
  if (a.dimension != Dimension::kPlain || b.dimension != Dimension::kPlain) {
    return mismatch(Op::kPow, a, b, problem);
  }
  if (a.kind == DatumKind::kExact && b.whole() && b.exact.num >= -kLargestPower && b.exact.num <= kLargestPower) {
    const bool inverse = b.exact.num < 0;
    if (inverse && a.exact.num == 0) {
      return division_by_zero(problem);
    }
    std::optional<Rational> result = Rational{1, 1};
    std::optional<Rational> square = a.exact;
    for (Int128 rest = inverse ? -b.exact.num : b.exact.num; result && rest > 0; rest /= 2) {
      if (rest % 2 == 1) {
        result = square ? multiply(*result, *square) : std::nullopt;
      }
      square = square && rest > 1 ? multiply(*square, *square) : square;
    }
    if (result && inverse) {
      result = divide({1, 1}, *result);
    }
    return exact_or(result, Dimension::kPlain, problem);
  }
  const double base = a.as_double();
  if (base == 0 && b.as_double() < 0) {
    return division_by_zero(problem);
  }
  const double result = std::pow(base, b.as_double());
  return std::isnan(result) ? no_result(problem, "XG0304", "a negative number cannot be raised to a fractional power",
                                        "write a whole exponent, or a base of 0 or more")
                            : real_or(result, Dimension::kPlain, problem);
}

Datum multiply_or_divide(Op op, const Datum& a, const Datum& b, Problem& problem) {
  const bool times = op == Op::kMul;
  Dimension dimension = a.dimension;
  if (b.dimension != Dimension::kPlain) {
    // The quotient of two quantities of one dimension is a plain number. The product of a plain number and a quantity
    // has the dimension of the quantity.
    if (times && a.dimension == Dimension::kPlain) {
      dimension = b.dimension;
    } else if (!times && a.dimension == b.dimension) {
      dimension = Dimension::kPlain;
    } else {
      return mismatch(op, a, b, problem);
    }
  }
  if (!times && b.as_double() == 0) {
    return division_by_zero(problem);
  }
  if (a.kind == DatumKind::kExact && b.kind == DatumKind::kExact) {
    return exact_or(times ? multiply(a.exact, b.exact) : divide(a.exact, b.exact), dimension, problem);
  }
  return real_or(times ? a.as_double() * b.as_double() : a.as_double() / b.as_double(), dimension, problem);
}

Datum floor_divide(Op op, const Datum& a, const Datum& b, Problem& problem) {
  if (a.dimension != b.dimension && b.dimension != Dimension::kPlain) {
    return mismatch(op, a, b, problem);
  }
  if (b.as_double() == 0) {
    return division_by_zero(problem);
  }
  const Dimension dimension = op == Op::kMod || b.dimension == Dimension::kPlain ? a.dimension : Dimension::kPlain;
  if (a.kind == DatumKind::kExact && b.kind == DatumKind::kExact) {
    const auto ratio = divide(a.exact, b.exact);
    if (!ratio) {
      return too_large(problem);
    }
    const Rational whole{floor_of(*ratio), 1};
    if (op == Op::kFloorDiv) {
      return make_exact(whole, dimension);
    }
    const auto product = multiply(whole, b.exact);
    return product ? exact_or(subtract(a.exact, *product), dimension, problem) : too_large(problem);
  }
  const double whole = std::floor(a.as_double() / b.as_double());
  return real_or(op == Op::kFloorDiv ? whole : a.as_double() - whole * b.as_double(), dimension, problem);
}

Datum sum(Op op, const Datum& a, const Datum& b, Problem& problem) {
  if (op == Op::kAdd && a.kind == DatumKind::kString && b.kind == DatumKind::kString) {
    if (a.text.size() + b.text.size() > kLongestString) {
      return no_result(problem, "XG0216",
                       "the joined string is longer than " + std::to_string(kLongestString) + " bytes",
                       "make the strings shorter");
    }
    return make_string(a.text + b.text);
  }
  if (!a.number() || !b.number() || a.dimension != b.dimension) {
    return mismatch(op, a, b, problem);
  }
  if (a.kind == DatumKind::kExact && b.kind == DatumKind::kExact) {
    return exact_or(op == Op::kAdd ? add(a.exact, b.exact) : subtract(a.exact, b.exact), a.dimension, problem);
  }
  return real_or(op == Op::kAdd ? a.as_double() + b.as_double() : a.as_double() - b.as_double(), a.dimension, problem);
}

Datum comparison(Op op, const Datum& a, const Datum& b, Problem& problem) {
  if (op == Op::kEq || op == Op::kNe) {
    const bool comparable = a.kind == b.kind || (a.number() && b.number() && a.dimension == b.dimension) ||
                            a.kind == DatumKind::kNone || b.kind == DatumKind::kNone;
    if (!comparable || a.kind == DatumKind::kTensor || b.kind == DatumKind::kTensor) {
      return mismatch(op, a, b, problem);
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
    return mismatch(op, a, b, problem);
  }
  return make_bool(op == Op::kLt ? order < 0 : op == Op::kLe ? order <= 0 : op == Op::kGt ? order > 0 : order >= 0);
}

Datum rounded(bool up, const Datum& value, Problem& problem) {
  if (!value.number()) {
    return not_taken("a number is expected, not " + kind_text(value), problem);
  }
  if (value.kind == DatumKind::kExact) {
    return make_exact({up ? ceil_of(value.exact) : floor_of(value.exact), 1}, value.dimension);
  }
  const double whole = up ? std::ceil(value.real) : std::floor(value.real);
  // Floats from 2^62 on, infinity and NaN are rejected: they cannot be exact counts.
  if (!(std::fabs(whole) < 0x1.0p62)) {
    return too_large(problem);
  }
  return make_exact({static_cast<Int128>(whole), 1}, value.dimension);
}

Datum extreme(bool largest, std::span<const Datum> args, Problem& problem) {
  Datum best = args[0];
  for (const Datum& arg : args) {
    const Datum better = comparison(largest ? Op::kGt : Op::kLt, arg, best, problem);
    if (better.is_error()) {
      return not_taken(std::string("`") + (largest ? "max" : "min") + "` compares numbers of one unit, not " +
                           kind_text(best) + " and " + kind_text(arg),
                       problem);
    }
    best = better.flag ? arg : best;
  }
  return best;
}

bool is_sequence(const Datum& value) { return value.kind == DatumKind::kList || value.kind == DatumKind::kTuple; }

// If one operand is a list, applies the operator to each of its items: [3, 5] // 2.
Datum each_binary(Op op, const Datum& a, const Datum& b, Problem& problem) {
  const Datum& list = is_sequence(a) ? a : b;
  std::vector<Datum> items;
  for (const Datum& item : *list.items) {
    Datum made = item.number() ? constant_binary(op, is_sequence(a) ? item : a, is_sequence(a) ? b : item, problem)
                               : mismatch(op, a, b, problem);
    if (made.is_error()) {
      return made;
    }
    items.push_back(std::move(made));
  }
  return make_items(list.kind, std::move(items));
}

}  // namespace

Datum constant_binary(Op op, const Datum& a, const Datum& b, Problem& problem) {
  switch (op) {
    case Op::kEq:
    case Op::kNe:
    case Op::kLt:
    case Op::kLe:
    case Op::kGt:
    case Op::kGe:
      return comparison(op, a, b, problem);
    default:
      break;
  }
  if ((is_sequence(a) && b.number()) || (a.number() && is_sequence(b))) {
    return each_binary(op, a, b, problem);
  }
  switch (op) {
    case Op::kAdd:
    case Op::kSub:
      return sum(op, a, b, problem);
    default:
      break;
  }
  if (!a.number() || !b.number()) {
    return mismatch(op, a, b, problem);
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

Datum constant_function(std::string_view name, std::span<const Datum> args, Problem& problem) {
  const bool many = name == "max" || name == "min";
  if (args.empty() || (!many && args.size() != 1)) {
    return not_taken("`" + std::string(name) + "` takes " + (many ? "one number or more" : "one value"), problem);
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
                                  : not_taken("a list is expected, not " + kind_text(value), problem);
  }
  if (!value.number()) {
    return not_taken("a number is expected, not " + kind_text(value), problem);
  }
  if (name == "floor" || name == "ceil") {
    return rounded(name == "ceil", value, problem);
  }
  if (name == "round") {
    const Datum half = sum(Op::kAdd, value, make_exact({1, 2}, value.dimension), problem);
    return half.is_error() ? half : rounded(false, half, problem);
  }
  if (name == "abs") {
    return value.as_double() < 0 ? constant_binary(Op::kMul, value, make_whole(-1), problem) : value;
  }
  if (value.dimension != Dimension::kPlain) {
    return not_taken("a plain number is expected, not " + kind_text(value), problem);
  }
  const double x = value.as_double();
  const double result = name == "sqrt" ? std::sqrt(x) : name == "exp" ? std::exp(x) : std::log(x);
  return std::isfinite(result) ? make_real(result)
                               : not_taken("`" + std::string(name) + "` has no value at " + to_text(value), problem);
}

}  // namespace xrun::lang
