// ScalarExpr: a function of numbers as a value. A `pointwise` function and an element-wise operator compute it for one
// element; `map` carries it as text, so that it is printed, hashed and stored like any other attribute.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "graph/base/id.h"
#include "graph/base/result.h"
#include "graph/types/tensor_type.h"

namespace xrun {

enum class ScalarOp : uint8_t {
  kInput,
  kConstant,
  kAdd,
  kSub,
  kMul,
  kDiv,
  kPow,
  kMin,  // NaN if one or both are NaN
  kMax,
  kLess,  // comparisons: 1 if true, else 0
  kLessEqual,
  kEqual,
  kSelect,  // the second argument if the first is not 0, else the third
  kNeg,
  kExp,
  kLog,
  kSqrt,
  kAbs,
  kSign,  // -1, 0 or 1
  kFloor,
  kErf,
  kSin,
  kCos,
  kAcos,
  kTanh,
  kSigmoid,
  kBf16,  // rounded to bf16, to the nearest, ties to even
  kF16,   // rounded to f16, which has a smaller range: larger numbers become infinite
};

struct ScalarTag;
using ScalarId = Id<ScalarTag>;

struct ScalarNode {
  ScalarOp op = ScalarOp::kConstant;
  std::array<ScalarId, 3> args;  // arguments; their nodes come before this one
  double value = 0;              // kConstant: the value, which is finite
  int input = 0;                 // kInput: index of the input

  bool operator==(const ScalarNode&) const = default;
};

// The most operations of a function in the text, and of a derived or parsed one.
inline constexpr size_t kMostScalarOps = 4096;
inline constexpr size_t kMostDerivedScalarOps = 16 * kMostScalarOps;
inline constexpr int kMostScalarInputs = 16;

// A list of operations in topological order, some of which are results. Equal operations are stored once. Operations on
// constants are computed in f64. Operations without effect, such as `x * 1` and `x + 0`, are left out. No other rule
// changes a rounding, except that powers with small whole exponents are products.
class ScalarExpr {
 public:
  ScalarId input(int index);
  ScalarId constant(double value);
  // Appends an operation, or returns the id of an equal one. REQUIRES: the number of arguments that `op` has.
  ScalarId make(ScalarOp op, ScalarId a, ScalarId b = {}, ScalarId c = {});
  // Appends the rounding to an element type; returns x if numbers of this type are not rounded: any but bf16 and f16.
  ScalarId rounded(ScalarId x, DType dtype);
  // Appends the operations of `other`, with `inputs` in place of its inputs; returns its results.
  std::vector<ScalarId> insert(const ScalarExpr& other, std::span<const ScalarId> inputs);
  // Removes operations that no result depends on.
  void prune();
  void set_results(std::vector<ScalarId> results) { results_ = std::move(results); }

  const std::vector<ScalarNode>& nodes() const { return nodes_; }
  const std::vector<ScalarId>& results() const { return results_; }
  const ScalarNode& node(ScalarId id) const { return nodes_[static_cast<size_t>(id.index)]; }
  // The value of a constant; null for other operations.
  const double* constant_of(ScalarId id) const;
  // Whether a result depends on the operation. Index: node.
  std::vector<bool> reached() const;
  // The inputs that a result depends on, ascending.
  std::vector<int> inputs_read() const;
  size_t operations() const;  // number of operations that results depend on, without inputs and constants

 private:
  using Key = std::tuple<ScalarOp, std::array<ScalarId, 3>, uint64_t>;
  ScalarId share(const ScalarNode& node);
  ScalarId power(ScalarId base, ScalarId exponent);
  // The operation in a simpler form; invalid if there is no simpler form.
  ScalarId simplified(ScalarOp op, ScalarId a, ScalarId b, ScalarId c);

  std::vector<ScalarNode> nodes_;
  std::vector<ScalarId> results_;
  std::map<Key, ScalarId> known_;
};

int arity_of(ScalarOp op);
std::string_view name_of(ScalarOp op);  // "exp"; for an operator its sign, "+"
// The function with a name such as `exp`, `min` or `select`; null for another word.
const ScalarOp* scalar_function(std::string_view name);

// apply computes one operation, and evaluate a whole function, in f64.
double apply(ScalarOp op, double a, double b = 0, double c = 0);
std::vector<double> evaluate(const ScalarExpr& expr, std::span<const double> inputs);
// Evaluates a function in the caller's memory: `values` gets the value of each node. REQUIRES: `values` has one element
// for each node.
void evaluate(const ScalarExpr& expr, std::span<const double> inputs, std::span<double> values);

// ---- text (scalar_text.cpp): "t0 = exp(x0); t0 / (t0 + 1), x1 * t0". Inputs are x0, x1, ...; an operation that is
// used twice has a name. parse_scalar_expr returns an expression with the same text, and an error (XG0303) for any
// other text.
std::string to_text(const ScalarExpr& expr);
Result<ScalarExpr> parse_scalar_expr(std::string_view text);

// ---- derivatives (scalar_derivative.cpp)
// The gradient of an expression with the inputs 0 .. inputs - 1. The new expression has the same inputs; in addition,
// input `inputs + r` is the gradient of result r. It has one result for each input in `wanted`: the sum over r of the
// gradient of result r times the derivative of result r by that input. Derivatives are accumulated forward, so that a
// choice (`select`) also chooses between the derivatives of its branches. At corners, `max` and `min` of equal operands
// have the derivative of the second operand, and `abs` has the derivative 0 at 0.
ScalarExpr gradient_of(const ScalarExpr& expr, int inputs, std::span<const int> wanted);
// Evaluates an expression at many points. Returns the first operation whose result is not finite at any point at which
// its arguments are finite, or null. A function with such a derivative cannot be trained.
const ScalarNode* never_finite(const ScalarExpr& expr);

}  // namespace xrun
