// Derivatives of scalar expressions, and the search for operations that are finite at no point.
//   1. gradient_of copies the expression, with the same inputs, into a new one.
//   2. For each wanted input, ForwardDerivative computes the derivative of every operation by that input, in
//      topological order. A derivative that is 0 is not stored.
//   3. The derivative of each result is multiplied by the gradient of that result, and the products are added.
// Forward accumulation takes a pass for each input, of which there are few, and lets `select` choose between the
// derivatives of its branches.
// Tests: tests/graph/types/scalar_expr_test.cpp
#include <cmath>
#include <numbers>

#include "graph/types/scalar_expr.h"

namespace xrun {
namespace {

// Applies f, which must be linear, to a derivative. If the derivative is a choice, f is applied to each branch. A
// branch that is 0 thus stays 0 even if f is infinite or NaN there, as in sqrt(max(x, 0)) at 0. `budget` bounds the
// number of branches.
template <class F>
ScalarId of_branches(ScalarExpr& into, ScalarId derivative, const F& f, int& budget) {
  const ScalarNode node = into.node(derivative);
  if (node.op != ScalarOp::kSelect || --budget < 0) {
    return f(derivative);
  }
  const auto branch = [&](ScalarId id) {
    const double* const constant = into.constant_of(id);
    return constant != nullptr && *constant == 0 ? id : of_branches(into, id, f, budget);
  };
  const ScalarId yes = branch(node.args[1]);
  return into.make(ScalarOp::kSelect, node.args[0], yes, branch(node.args[2]));
}

template <class F>
ScalarId of_branches(ScalarExpr& into, ScalarId derivative, const F& f) {
  int budget = 16;
  return of_branches(into, derivative, f, budget);
}

// The derivative of each operation by one input, as an operation in `into`; an invalid id stands for 0.
class ForwardDerivative {
 public:
  ForwardDerivative(ScalarExpr& into, std::span<const ScalarId> copies) : into_(into), copies_(copies) {}

  std::vector<ScalarId> by(const ScalarExpr& expr, int input) {
    derivatives_.clear();
    for (size_t i = 0; i < expr.nodes().size(); ++i) {
      const ScalarNode& node = expr.nodes()[i];
      derivatives_.push_back(node.op == ScalarOp::kInput ? (node.input == input ? into_.constant(1) : ScalarId())
                                                         : of(node, copies_[i]));
    }
    return derivatives_;
  }

 private:
  ScalarId make(ScalarOp op, ScalarId a, ScalarId b = {}, ScalarId c = {}) { return into_.make(op, a, b, c); }
  ScalarId number(double value) { return into_.constant(value); }
  ScalarId or_zero(ScalarId id) { return id.valid() ? id : number(0); }
  ScalarId copy(const ScalarNode& node, size_t i) const { return copies_[static_cast<size_t>(node.args[i].index)]; }
  ScalarId derivative(const ScalarNode& node, size_t i) const {
    return node.args[i].valid() ? derivatives_[static_cast<size_t>(node.args[i].index)] : ScalarId();
  }
  ScalarId product(ScalarId derivative, ScalarId factor) {
    return derivative.valid()
               ? of_branches(into_, derivative, [&](ScalarId d) { return make(ScalarOp::kMul, d, factor); })
               : ScalarId();
  }
  ScalarId quotient(ScalarId derivative, ScalarId by) {
    return derivative.valid() ? of_branches(into_, derivative, [&](ScalarId d) { return make(ScalarOp::kDiv, d, by); })
                              : ScalarId();
  }
  ScalarId sum(ScalarId a, ScalarId b) { return !a.valid() ? b : !b.valid() ? a : make(ScalarOp::kAdd, a, b); }
  ScalarId minus(ScalarId a) {
    return a.valid() ? of_branches(into_, a, [&](ScalarId d) { return make(ScalarOp::kNeg, d); }) : a;
  }
  ScalarId choice(ScalarId condition, ScalarId yes, ScalarId no) {
    return yes.valid() || no.valid() ? make(ScalarOp::kSelect, condition, or_zero(yes), or_zero(no)) : ScalarId();
  }

  // The derivative of y = a^b by b: y ln a if a > 0, otherwise 0.
  ScalarId by_exponent(ScalarId a, ScalarId y) {
    return choice(make(ScalarOp::kLess, number(0), a), make(ScalarOp::kMul, y, make(ScalarOp::kLog, a)), {});
  }

  // The derivative of one operation; `y` is the operation's own value.
  ScalarId of(const ScalarNode& node, ScalarId y) {
    const int arity = arity_of(node.op);
    const ScalarId a = arity > 0 ? copy(node, 0) : ScalarId();
    const ScalarId b = arity > 1 ? copy(node, 1) : ScalarId();
    const ScalarId da = derivative(node, 0);
    const ScalarId db = derivative(node, 1);
    switch (node.op) {
      case ScalarOp::kAdd:
        return sum(da, db);
      case ScalarOp::kSub:
        return sum(da, minus(db));
      case ScalarOp::kMul:
        return sum(product(da, b), product(db, a));
      case ScalarOp::kDiv: {
        const ScalarId top = sum(da, minus(product(db, y)));
        return quotient(top, b);
      }
      case ScalarOp::kPow:
        return sum(da.valid() ? product(da, make(ScalarOp::kMul, b,
                                                 make(ScalarOp::kPow, a, make(ScalarOp::kSub, b, number(1)))))
                              : ScalarId(),
                   db.valid() ? product(db, by_exponent(a, y)) : ScalarId());
      case ScalarOp::kMin:
        return choice(make(ScalarOp::kLess, a, b), da, db);
      case ScalarOp::kMax:
        return choice(make(ScalarOp::kLess, b, a), da, db);
      case ScalarOp::kSelect:
        return choice(a, db, derivative(node, 2));
      default:
        return da.valid() ? of_function(node.op, a, y, da) : ScalarId();
    }
  }

  ScalarId of_function(ScalarOp op, ScalarId a, ScalarId y, ScalarId da) {
    switch (op) {
      case ScalarOp::kNeg:
        return minus(da);
      case ScalarOp::kExp:
        return product(da, y);
      case ScalarOp::kLog:
        return quotient(da, a);
      case ScalarOp::kSqrt:
        return quotient(product(da, number(0.5)), y);
      case ScalarOp::kAbs:
        return choice(make(ScalarOp::kLess, number(0), a), da,
                      choice(make(ScalarOp::kLess, a, number(0)), minus(da), {}));
      case ScalarOp::kErf:
        return product(product(da, number(2 * std::numbers::inv_sqrtpi)),
                       make(ScalarOp::kExp, minus(make(ScalarOp::kMul, a, a))));
      case ScalarOp::kSin:
        return product(da, make(ScalarOp::kCos, a));
      case ScalarOp::kCos:
        return minus(product(da, make(ScalarOp::kSin, a)));
      case ScalarOp::kAcos:
        return minus(quotient(da, make(ScalarOp::kSqrt, make(ScalarOp::kSub, number(1), make(ScalarOp::kMul, a, a)))));
      case ScalarOp::kTanh:
        return product(da, make(ScalarOp::kSub, number(1), make(ScalarOp::kMul, y, y)));
      case ScalarOp::kSigmoid:
        return product(da, make(ScalarOp::kMul, y, make(ScalarOp::kSub, number(1), y)));
      case ScalarOp::kBf16:
      case ScalarOp::kF16:
        return da;  // the derivative of rounding is taken as 1
      default:
        return {};  // comparisons, sign and floor are constant between their steps
    }
  }

  ScalarExpr& into_;
  std::span<const ScalarId> copies_;  // copies of the nodes, in `into_`
  std::vector<ScalarId> derivatives_;
};

}  // namespace

ScalarExpr gradient_of(const ScalarExpr& expr, int inputs, std::span<const int> wanted) {
  ScalarExpr made;
  std::vector<ScalarId> places;
  for (int i = 0; i < inputs; ++i) {
    places.push_back(made.input(i));
  }
  ScalarExpr all = expr;  // every node is a result, to get the copy of each
  std::vector<ScalarId> every;
  for (size_t i = 0; i < expr.nodes().size(); ++i) {
    every.push_back(ScalarId(i));
  }
  all.set_results(std::move(every));
  const std::vector<ScalarId> copies = made.insert(all, places);
  ForwardDerivative forward(made, copies);
  std::vector<ScalarId> results;
  for (const int input : wanted) {
    const std::vector<ScalarId> derivatives = forward.by(expr, input);
    ScalarId total;
    for (size_t r = 0; r < expr.results().size(); ++r) {
      const ScalarId derivative = derivatives[static_cast<size_t>(expr.results()[r].index)];
      if (derivative.valid()) {
        const ScalarId dy = made.input(inputs + static_cast<int>(r));
        const ScalarId part =
            of_branches(made, derivative, [&](ScalarId d) { return made.make(ScalarOp::kMul, dy, d); });
        total = total.valid() ? made.make(ScalarOp::kAdd, total, part) : part;
      }
    }
    results.push_back(total.valid() ? total : made.constant(0));
  }
  made.set_results(std::move(results));
  return made;
}

const ScalarNode* never_finite(const ScalarExpr& expr) {
  constexpr int kPoints = 256;
  const size_t count = expr.nodes().size();
  const std::vector<bool> reached = expr.reached();
  std::vector<bool> once(count, false);
  std::vector<bool> defined(count, false);  // whether the arguments were finite at some point
  std::vector<double> values(count);
  for (int point = 0; point < kPoints; ++point) {
    for (size_t i = 0; i < count; ++i) {
      const ScalarNode& node = expr.nodes()[i];
      bool finite = true;
      std::array<double, 3> args{};
      for (size_t k = 0; k < args.size(); ++k) {
        args[k] = node.args[k].valid() ? values[static_cast<size_t>(node.args[k].index)] : 0;
        finite = finite && std::isfinite(args[k]);
      }
      // The inputs are points of Weyl sequences, at even points in [-1, 1], at odd points in [-8, 8].
      const double turn = std::fmod((point + 1) * std::sqrt(2.0 + 3.0 * node.input), 1.0);
      const double spread = point % 2 == 0 ? 1.0 : 8.0;
      values[i] = node.op == ScalarOp::kInput      ? (2 * turn - 1) * spread
                  : node.op == ScalarOp::kConstant ? node.value
                                                   : apply(node.op, args[0], args[1], args[2]);
      values[i] = static_cast<double>(static_cast<float>(values[i]));  // kernels compute in f32
      defined[i] = defined[i] || finite;
      once[i] = once[i] || (finite && std::isfinite(values[i]));
    }
  }
  for (size_t i = 0; i < count; ++i) {
    if (reached[i] && defined[i] && !once[i]) {
      return &expr.nodes()[i];
    }
  }
  return nullptr;
}

}  // namespace xrun
