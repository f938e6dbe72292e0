#include "graph/types/scalar_expr.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "graph/base/check.h"

namespace xrun {
namespace {

struct OpFacts {
  ScalarOp op;
  int arity;
  std::string_view name;
  bool is_function;
};

constexpr OpFacts kFacts[] = {
    {ScalarOp::kInput, 0, "input", false},  {ScalarOp::kConstant, 0, "constant", false},
    {ScalarOp::kAdd, 2, "+", false},        {ScalarOp::kSub, 2, "-", false},
    {ScalarOp::kMul, 2, "*", false},        {ScalarOp::kDiv, 2, "/", false},
    {ScalarOp::kPow, 2, "^", false},        {ScalarOp::kMin, 2, "min", true},
    {ScalarOp::kMax, 2, "max", true},       {ScalarOp::kLess, 2, "<", false},
    {ScalarOp::kLessEqual, 2, "<=", false}, {ScalarOp::kEqual, 2, "==", false},
    {ScalarOp::kSelect, 3, "select", true}, {ScalarOp::kNeg, 1, "-", false},
    {ScalarOp::kExp, 1, "exp", true},       {ScalarOp::kLog, 1, "log", true},
    {ScalarOp::kSqrt, 1, "sqrt", true},     {ScalarOp::kAbs, 1, "abs", true},
    {ScalarOp::kSign, 1, "sign", true},     {ScalarOp::kFloor, 1, "floor", true},
    {ScalarOp::kErf, 1, "erf", true},       {ScalarOp::kSin, 1, "sin", true},
    {ScalarOp::kCos, 1, "cos", true},       {ScalarOp::kAcos, 1, "acos", true},
    {ScalarOp::kTanh, 1, "tanh", true},     {ScalarOp::kSigmoid, 1, "sigmoid", true},
    {ScalarOp::kBf16, 1, "bf16", false},    {ScalarOp::kF16, 1, "f16", false},  // used by passes, not in the language
};

const OpFacts& facts_of(ScalarOp op) { return kFacts[static_cast<size_t>(op)]; }

bool is_operation(ScalarOp op) { return op != ScalarOp::kInput && op != ScalarOp::kConstant; }

double bf16(double x) {
  const auto narrow = static_cast<float>(x);
  const auto bits = std::bit_cast<uint32_t>(narrow);
  return std::isnan(x) ? x
                       : static_cast<double>(std::bit_cast<float>((bits + 0x7FFFU + (bits >> 16 & 1U)) & 0xFFFF0000U));
}

// Rounds to f16. Neighbouring numbers differ by 2^-24 below 2^-14; from there on, by 2^(e - 10) in [2^e, 2^(e + 1)).
double f16(double x) {
  const double size = std::fabs(static_cast<double>(static_cast<float>(x)));
  if (!(size > 0 && size < 65536)) {
    return size >= 65536 ? std::copysign(HUGE_VAL, x) : x;
  }
  const double step = std::ldexp(1.0, std::max(std::ilogb(size), -14) - 10);
  const double rounded = std::nearbyint(size / step) * step;  // to the nearest, ties to even
  return std::copysign(rounded > 65504 ? HUGE_VAL : rounded, x);
}

}  // namespace

int arity_of(ScalarOp op) { return facts_of(op).arity; }

std::string_view name_of(ScalarOp op) { return facts_of(op).name; }

const ScalarOp* scalar_function(std::string_view name) {
  const auto found = std::ranges::find_if(kFacts, [&](const OpFacts& f) { return f.is_function && f.name == name; });
  return found == std::end(kFacts) ? nullptr : &found->op;
}

double apply(ScalarOp op, double a, double b, double c) {
  switch (op) {
    case ScalarOp::kInput:
    case ScalarOp::kConstant:
      break;
    case ScalarOp::kAdd:
      return a + b;
    case ScalarOp::kSub:
      return a - b;
    case ScalarOp::kMul:
      return a * b;
    case ScalarOp::kDiv:
      return a / b;
    case ScalarOp::kPow:
      return std::pow(a, b);
    case ScalarOp::kMin:
      return std::isnan(a) || a < b ? a : b;
    case ScalarOp::kMax:
      return std::isnan(a) || a > b ? a : b;
    case ScalarOp::kLess:
      return a < b ? 1 : 0;
    case ScalarOp::kLessEqual:
      return a <= b ? 1 : 0;
    case ScalarOp::kEqual:
      return a == b ? 1 : 0;
    case ScalarOp::kSelect:
      return a != 0 ? b : c;
    case ScalarOp::kNeg:
      return -a;
    case ScalarOp::kExp:
      return std::exp(a);
    case ScalarOp::kLog:
      return std::log(a);
    case ScalarOp::kSqrt:
      return std::sqrt(a);
    case ScalarOp::kAbs:
      return std::fabs(a);
    case ScalarOp::kSign:
      return a > 0 ? 1 : a < 0 ? -1 : a;
    case ScalarOp::kFloor:
      return std::floor(a);
    case ScalarOp::kErf:
      return std::erf(a);
    case ScalarOp::kSin:
      return std::sin(a);
    case ScalarOp::kCos:
      return std::cos(a);
    case ScalarOp::kAcos:
      return std::acos(a);
    case ScalarOp::kTanh:
      return std::tanh(a);
    case ScalarOp::kSigmoid:
      return 1 / (1 + std::exp(-a));
    case ScalarOp::kBf16:
      return bf16(a);
    case ScalarOp::kF16:
      return f16(a);
  }
  return a;
}

void evaluate(const ScalarExpr& expr, std::span<const double> inputs, std::span<double> values) {
  for (size_t n = 0; n < expr.nodes().size(); ++n) {
    const ScalarNode& node = expr.nodes()[n];
    const auto arg = [&](size_t i) {
      return node.args[i].valid() ? values[static_cast<size_t>(node.args[i].index)] : 0.0;
    };
    values[n] = node.op == ScalarOp::kInput      ? inputs[static_cast<size_t>(node.input)]
                : node.op == ScalarOp::kConstant ? node.value
                                                 : apply(node.op, arg(0), arg(1), arg(2));
  }
}

std::vector<double> evaluate(const ScalarExpr& expr, std::span<const double> inputs) {
  std::vector<double> values(expr.nodes().size());
  evaluate(expr, inputs, values);
  std::vector<double> results;
  for (const ScalarId id : expr.results()) {
    results.push_back(values[static_cast<size_t>(id.index)]);
  }
  return results;
}

ScalarId ScalarExpr::share(const ScalarNode& node) {
  const uint64_t detail =
      node.op == ScalarOp::kInput ? static_cast<uint64_t>(node.input) : std::bit_cast<uint64_t>(node.value);
  const auto [at, fresh] = known_.try_emplace({node.op, node.args, detail}, ScalarId(nodes_.size()));
  if (fresh) {
    nodes_.push_back(node);
  }
  return at->second;
}

ScalarId ScalarExpr::rounded(ScalarId x, DType dtype) {
  return dtype == DType::kBF16 ? make(ScalarOp::kBf16, x) : dtype == DType::kF16 ? make(ScalarOp::kF16, x) : x;
}

ScalarId ScalarExpr::input(int index) { return share({.op = ScalarOp::kInput, .args = {}, .input = index}); }

ScalarId ScalarExpr::constant(double value) {
  XRUN_CHECK(std::isfinite(value), "a constant of a scalar expression is finite");
  return share({.op = ScalarOp::kConstant, .args = {}, .value = value});
}

const double* ScalarExpr::constant_of(ScalarId id) const {
  return node(id).op == ScalarOp::kConstant ? &node(id).value : nullptr;
}

// Powers with small whole exponents become products, as people compute them; the power 1/2 becomes a square root.
ScalarId ScalarExpr::power(ScalarId base, ScalarId exponent) {
  constexpr double kLargest = 16;
  const double e = *constant_of(exponent);
  if (e == 0.5) {
    return make(ScalarOp::kSqrt, base);
  }
  if (e != std::floor(e) || std::fabs(e) > kLargest) {
    return {};
  }
  if (e < 0) {
    return make(ScalarOp::kDiv, constant(1), make(ScalarOp::kPow, base, constant(-e)));
  }
  ScalarId product;
  ScalarId square = base;
  for (int rest = static_cast<int>(e); rest > 0; rest /= 2) {
    if (rest % 2 == 1) {
      product = product.valid() ? make(ScalarOp::kMul, product, square) : square;
    }
    square = rest > 1 ? make(ScalarOp::kMul, square, square) : square;
  }
  return product.valid() ? product : constant(1);
}

ScalarId ScalarExpr::simplified(ScalarOp op, ScalarId a, ScalarId b, ScalarId c) {
  const double* const x = constant_of(a);
  const double* const y = b.valid() ? constant_of(b) : nullptr;
  const double* const z = c.valid() ? constant_of(c) : nullptr;
  if (x != nullptr && (arity_of(op) < 2 || y != nullptr) && (arity_of(op) < 3 || z != nullptr)) {
    const double value = apply(op, *x, y != nullptr ? *y : 0, z != nullptr ? *z : 0);
    return std::isfinite(value) ? constant(value) : ScalarId();
  }
  const auto is = [](const double* constant, double value) { return constant != nullptr && *constant == value; };
  const auto is_negative = [&](ScalarId id) { return node(id).op == ScalarOp::kNeg; };
  switch (op) {
    case ScalarOp::kAdd:
      return is(x, 0) ? b : is(y, 0) ? a : is_negative(b) ? make(ScalarOp::kSub, a, node(b).args[0]) : ScalarId();
    case ScalarOp::kSub:
      return is(y, 0) ? a : is_negative(b) ? make(ScalarOp::kAdd, a, node(b).args[0]) : ScalarId();
    case ScalarOp::kMul:
      return is(x, 1)    ? b
             : is(y, 1)  ? a
             : is(x, -1) ? make(ScalarOp::kNeg, b)
             : is(y, -1) ? make(ScalarOp::kNeg, a)
                         : ScalarId();
    case ScalarOp::kDiv:
      return is(y, 1) ? a : is(y, -1) ? make(ScalarOp::kNeg, a) : ScalarId();
    case ScalarOp::kPow:
      return y != nullptr ? power(a, b) : ScalarId();
    case ScalarOp::kSelect:
      return x != nullptr ? (*x != 0 ? b : c) : b == c ? b : ScalarId();
    case ScalarOp::kNeg:
      return is_negative(a) ? node(a).args[0] : ScalarId();
    default:
      return {};
  }
}

ScalarId ScalarExpr::make(ScalarOp op, ScalarId a, ScalarId b, ScalarId c) {
  XRUN_CHECK(b.valid() == (arity_of(op) > 1) && c.valid() == (arity_of(op) > 2),
             "a scalar operation has another number of arguments");
  if (const ScalarId known = simplified(op, a, b, c); known.valid()) {
    return known;
  }
  if (op == ScalarOp::kAdd || op == ScalarOp::kMul) {
    // The operands of a commutative operation may be exchanged, since both orders give the same bits.
    if (const auto swapped = known_.find({op, {b, a, ScalarId()}, 0}); swapped != known_.end()) {
      return swapped->second;
    }
  }
  return share({.op = op, .args = {a, b, c}});
}

std::vector<ScalarId> ScalarExpr::insert(const ScalarExpr& other, std::span<const ScalarId> inputs) {
  std::vector<ScalarId> ids;
  for (const ScalarNode& node : other.nodes()) {
    const auto arg = [&](size_t i) {
      return node.args[i].valid() ? ids[static_cast<size_t>(node.args[i].index)] : ScalarId();
    };
    ids.push_back(node.op == ScalarOp::kInput      ? inputs[static_cast<size_t>(node.input)]
                  : node.op == ScalarOp::kConstant ? constant(node.value)
                                                   : make(node.op, arg(0), arg(1), arg(2)));
  }
  std::vector<ScalarId> results;
  for (const ScalarId id : other.results()) {
    results.push_back(ids[static_cast<size_t>(id.index)]);
  }
  return results;
}

void ScalarExpr::prune() {
  const std::vector<bool> is_reached = reached();
  const std::vector<ScalarNode> all = std::exchange(nodes_, {});
  known_.clear();
  std::vector<ScalarId> ids(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    if (is_reached[i]) {
      ScalarNode node = all[i];
      for (ScalarId& arg : node.args) {
        arg = arg.valid() ? ids[static_cast<size_t>(arg.index)] : arg;
      }
      ids[i] = share(node);
    }
  }
  for (ScalarId& result : results_) {
    result = ids[static_cast<size_t>(result.index)];
  }
}

std::vector<bool> ScalarExpr::reached() const {
  std::vector<bool> reached(nodes_.size(), false);
  for (const ScalarId id : results_) {
    reached[static_cast<size_t>(id.index)] = true;
  }
  for (size_t i = nodes_.size(); i-- > 0;) {
    for (const ScalarId arg : nodes_[i].args) {
      if (reached[i] && arg.valid()) {
        reached[static_cast<size_t>(arg.index)] = true;
      }
    }
  }
  return reached;
}

std::vector<int> ScalarExpr::inputs_read() const {
  const std::vector<bool> is_reached = reached();
  std::vector<int> inputs;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (is_reached[i] && nodes_[i].op == ScalarOp::kInput) {
      inputs.push_back(nodes_[i].input);
    }
  }
  std::ranges::sort(inputs);
  return inputs;
}

size_t ScalarExpr::operations() const {
  const std::vector<bool> is_reached = reached();
  size_t count = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    count += is_reached[i] && is_operation(nodes_[i].op) ? 1 : 0;
  }
  return count;
}

}  // namespace xrun
