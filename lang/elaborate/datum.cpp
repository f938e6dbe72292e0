// Tests: tests/lang/check_test.cpp
#include "lang/elaborate/datum.h"

#include <algorithm>
#include <cmath>

#include "graph/types/attr.h"

namespace xrun::lang {
namespace {

Int128 magnitude(Int128 value) { return value < 0 ? -value : value; }

Int128 common_divisor(Int128 a, Int128 b) {
  while (b != 0) {
    const Int128 rest = a % b;
    a = b;
    b = rest;
  }
  return magnitude(a);
}

// All numbers are smaller than this in magnitude. A sum of two such numbers fits in an Int128, and each can be negated,
// which is not so for the most negative Int128.
constexpr Int128 kEdge = static_cast<Int128>(1) << 126;
bool fits(Int128 value) { return value > -kEdge && value < kEdge; }

std::optional<Rational> reduce(Int128 num, Int128 den) {
  if (!fits(num) || !fits(den)) {
    return std::nullopt;
  }
  if (den < 0) {
    num = -num;
    den = -den;
  }
  const Int128 divisor = common_divisor(magnitude(num), den);
  return Rational{num / divisor, den / divisor};
}

std::optional<Int128> product(Int128 a, Int128 b) {
  Int128 result = 0;
  return __builtin_mul_overflow(a, b, &result) || !fits(result) ? std::nullopt : std::optional(result);
}

}  // namespace

std::optional<Rational> add(const Rational& a, const Rational& b) {
  const auto left = product(a.num, b.den);
  const auto right = product(b.num, a.den);
  const auto den = product(a.den, b.den);
  if (!left || !right || !den) {
    return std::nullopt;
  }
  return reduce(*left + *right, *den);
}

std::optional<Rational> subtract(const Rational& a, const Rational& b) { return add(a, {-b.num, b.den}); }

std::optional<Rational> multiply(const Rational& a, const Rational& b) {
  const auto num = product(a.num, b.num);
  const auto den = product(a.den, b.den);
  return num && den ? reduce(*num, *den) : std::nullopt;
}

std::optional<Rational> divide(const Rational& a, const Rational& b) { return multiply(a, {b.den, b.num}); }

std::optional<int> compare(const Rational& a, const Rational& b) {
  const auto left = product(a.num, b.den);
  const auto right = product(b.num, a.den);
  if (!left || !right) {
    return std::nullopt;
  }
  return *left < *right ? -1 : *left > *right ? 1 : 0;
}

Int128 floor_of(const Rational& value) {
  const Int128 quotient = value.num / value.den;
  return value.num % value.den < 0 ? quotient - 1 : quotient;
}

Int128 ceil_of(const Rational& value) {
  const Int128 quotient = value.num / value.den;
  return value.num % value.den > 0 ? quotient + 1 : quotient;
}

double to_double(const Rational& value) {
  return static_cast<double>(static_cast<long double>(value.num) / static_cast<long double>(value.den));
}

Datum make_bool(bool value) { return {.kind = DatumKind::kBool, .flag = value}; }
Datum make_whole(Int128 value) { return {.kind = DatumKind::kExact, .exact = {value, 1}}; }
Datum make_exact(Rational value, Dimension dimension) {
  return {.kind = DatumKind::kExact, .dimension = dimension, .exact = value};
}
Datum make_real(double value, Dimension dimension) {
  return {.kind = DatumKind::kReal, .dimension = dimension, .real = value};
}
Datum make_string(std::string value) { return {.kind = DatumKind::kString, .text = std::move(value)}; }
Datum make_symbol(std::string value) { return {.kind = DatumKind::kSymbol, .text = std::move(value)}; }
Datum make_tensor(ValueId id) { return {.kind = DatumKind::kTensor, .tensor = id}; }
Datum make_plain(DatumKind kind) { return {.kind = kind}; }

Datum make_items(DatumKind kind, std::vector<Datum> items) {
  Datum made{.kind = kind};
  for (const Datum& item : items) {
    made.weight += item.weight + static_cast<int64_t>(item.text.size() / 64);
    made.depth = std::max(made.depth, item.depth + 1);
  }
  made.items = std::make_shared<const std::vector<Datum>>(std::move(items));
  return made;
}

std::optional<int64_t> to_int64(const Datum& value) {
  if (!value.whole() || value.exact.num < INT64_MIN || value.exact.num > INT64_MAX) {
    return std::nullopt;
  }
  return static_cast<int64_t>(value.exact.num);
}

std::optional<int64_t> whole_number(const Datum& value) {
  return value.kind == DatumKind::kReal && value.dimension == Dimension::kPlain ? to_int64(value.real)
                                                                                : to_int64(value);
}

std::optional<int64_t> to_int64(double real) {
  // -2^63 and 2^63 are doubles; NaN fails each comparison.
  if (!(real >= -0x1p63 && real < 0x1p63) || real != std::trunc(real)) {
    return std::nullopt;
  }
  return static_cast<int64_t>(real);
}

std::string to_text(const Rational& value) {
  return value.whole() ? to_text(value.num) : to_text(value.num) + "/" + to_text(value.den);
}

namespace {

std::string_view base_unit(Dimension dimension) {
  constexpr std::string_view kUnits[] = {"", "B", "B/s", "s", " FLOP/s", "W", " Hz", " steps", " epochs", " samples"};
  return kUnits[static_cast<size_t>(dimension)];
}

std::string joined(const std::vector<Datum>& items) {
  std::string text;
  constexpr size_t kShown = 16;
  for (size_t i = 0; i < items.size() && i < kShown; ++i) {
    text += (i > 0 ? ", " : "") + to_text(items[i]);
  }
  return items.size() > kShown ? text + ", ..." : text;
}

}  // namespace

std::string to_text(const Datum& value) {
  switch (value.kind) {
    case DatumKind::kError:
      return "?";
    case DatumKind::kNone:
      return "none";
    case DatumKind::kAuto:
      return "auto";
    case DatumKind::kBool:
      return value.flag ? "true" : "false";
    case DatumKind::kExact:
      return to_text(value.exact) + std::string(base_unit(value.dimension));
    case DatumKind::kReal:
      return to_text(AttrValue(value.real)) + std::string(base_unit(value.dimension));
    case DatumKind::kString:
      return to_text(AttrValue(value.text));
    case DatumKind::kSymbol:
      return value.text;
    case DatumKind::kBatch:
      return "N";
    case DatumKind::kTensor:
      return "a tensor";
    case DatumKind::kOfParams:
      return "a function of parameters";
    case DatumKind::kScalar:
      return "a number of each element";
    case DatumKind::kTuple:
      return "(" + joined(*value.items) + ")";
    case DatumKind::kList:
      return "[" + joined(*value.items) + "]";
    case DatumKind::kRange:
      return to_text((*value.items)[0]) + ".." + to_text((*value.items)[1]);
  }
  return "?";
}

std::string kind_text(const Datum& value) {
  switch (value.kind) {
    case DatumKind::kNone:
    case DatumKind::kAuto:
    case DatumKind::kBool:
      return "`" + to_text(value) + "`";
    case DatumKind::kExact:
    case DatumKind::kReal:
      return value.dimension == Dimension::kPlain ? "the number " + to_text(value)
                                                  : std::string(name_of(value.dimension));
    case DatumKind::kSymbol:
      return "the name `" + value.text + "`";
    case DatumKind::kTuple:
      return "a tuple of " + std::to_string(value.items->size());
    case DatumKind::kError:
      return "nothing";
    case DatumKind::kString:
      return "a string";
    case DatumKind::kBatch:
      return "the batch dimension `N`";
    case DatumKind::kTensor:
      return "a tensor";
    case DatumKind::kOfParams:
      return "a function of parameters";
    case DatumKind::kScalar:
      return "a number of each element";
    case DatumKind::kList:
      return "a list";
    case DatumKind::kRange:
      return "a range";
  }
  return "nothing";
}

bool equal(const Datum& a, const Datum& b) {
  if (a.number() && b.number()) {
    if (a.dimension != b.dimension) {
      return false;
    }
    return a.kind == DatumKind::kExact && b.kind == DatumKind::kExact ? a.exact == b.exact
                                                                      : a.as_double() == b.as_double();
  }
  if (a.kind != b.kind) {
    return false;
  }
  switch (a.kind) {
    case DatumKind::kBool:
      return a.flag == b.flag;
    case DatumKind::kString:
    case DatumKind::kSymbol:
      return a.text == b.text;
    case DatumKind::kTuple:
    case DatumKind::kList:
    case DatumKind::kRange:
      return std::equal(a.items->begin(), a.items->end(), b.items->begin(), b.items->end(), equal);
    default:
      return a.kind == DatumKind::kNone || a.kind == DatumKind::kAuto || a.kind == DatumKind::kBatch;
  }
}

}  // namespace xrun::lang
