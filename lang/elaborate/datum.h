// Datum: the value of an expression while a file is elaborated (docs/reference/language.md, "Expressions"). Copies
// share lists, which are constant.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/source.h"
#include "graph/settings/specs.h"
#include "graph/types/attr.h"
#include "graph/types/scalar_expr.h"
#include "graph/types/tensor_type.h"
#include "lang/text/number.h"

namespace xrun::lang {

enum class DatumKind : uint8_t {
  kError,  // a fault was reported; code that gets this value reports nothing further
  kNone,
  kAuto,
  kBool,
  kExact,  // a whole number or an exact fraction, with or without a unit
  kReal,   // a float, with or without a unit
  kString,
  kSymbol,  // a bare name that a parameter or a setting defines
  kBatch,   // N
  kTensor,
  kOfParams,  // an element-wise function of parameters that has not met a tensor of the batch yet
  kScalar,    // inside a `pointwise` body: a number per element; `flag`: it is a condition, 1 or 0
  kTuple,
  kList,
  kRange,  // two items
};

// num / den in lowest terms, den > 0.
struct Rational {
  Int128 num = 0;
  Int128 den = 1;
  bool whole() const { return den == 1; }
  bool operator==(const Rational&) const = default;
};

// The operations return nullopt if a product reaches 2^126 before it is reduced. REQUIRES for `divide`: b is not 0.
std::optional<Rational> add(const Rational& a, const Rational& b);
std::optional<Rational> subtract(const Rational& a, const Rational& b);
std::optional<Rational> multiply(const Rational& a, const Rational& b);
std::optional<Rational> divide(const Rational& a, const Rational& b);
std::optional<int> compare(const Rational& a, const Rational& b);  // -1, 0, 1
Int128 floor_of(const Rational& value);
Int128 ceil_of(const Rational& value);
double to_double(const Rational& value);

struct Datum {
  DatumKind kind = DatumKind::kError;
  bool flag = false;
  Dimension dimension = Dimension::kPlain;
  Rational exact;                                   // kExact, in the base unit of the dimension
  double real = 0;                                  // kReal, in the base unit of the dimension
  std::string text;                                 // kString, kSymbol; kOfParams: the ScalarExpr
  ValueId tensor;                                   // kTensor
  ScalarId scalar;                                  // kScalar
  std::shared_ptr<const std::vector<Datum>> items;  // kTuple, kList, kRange; kOfParams: the parameters
  int64_t weight = 1;  // 1 + the weights of the items, and 1 per 64 bytes of their text; bounded
  int depth = 0;       // nesting of lists; bounded
  Span span;           // place in the text, for labels
  Span origin;         // place of the text that sets the option or `let`

  bool is_error() const { return kind == DatumKind::kError; }
  bool number() const { return kind == DatumKind::kExact || kind == DatumKind::kReal; }
  bool plain_number() const { return number() && dimension == Dimension::kPlain; }
  bool whole() const { return kind == DatumKind::kExact && dimension == Dimension::kPlain && exact.whole(); }
  bool has_elements() const { return kind == DatumKind::kTensor || kind == DatumKind::kOfParams; }
  double as_double() const { return kind == DatumKind::kExact ? to_double(exact) : real; }
};

Datum make_bool(bool value);
Datum make_whole(Int128 value);
Datum make_exact(Rational value, Dimension dimension = Dimension::kPlain);
Datum make_real(double value, Dimension dimension = Dimension::kPlain);
Datum make_string(std::string value);
Datum make_symbol(std::string value);
Datum make_tensor(ValueId id);
Datum make_items(DatumKind kind, std::vector<Datum> items);
Datum make_plain(DatumKind kind);  // kNone, kAuto, kBatch

// The value as an int64 if it is a whole plain number that fits.
std::optional<int64_t> to_int64(const Datum& value);
// The value as an int64 if it is a whole plain number that fits, or a whole float without a unit.
std::optional<int64_t> whole_number(const Datum& value);
// A float as an int64: 3.0 gives 3; 3.5 and 1e30 give nullopt.
std::optional<int64_t> to_int64(double real);

using xrun::to_text;                         // for attributes and tensor types
std::string to_text(const Rational& value);  // "7/2"
std::string to_text(const Datum& value);     // for messages: at most 16 items of a list; "a tensor"
std::string kind_text(const Datum& value);   // "the number 3", "a list": completes "gets ..."

// Whether two values of any kind are equal; N equals N. Tensors and error nodes are not equal to anything.
bool equal(const Datum& a, const Datum& b);

}  // namespace xrun::lang
