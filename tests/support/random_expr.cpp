#include "tests/support/random_expr.h"

#include <vector>

namespace xrun::testing {

ScalarExpr random_expr(std::mt19937& random, int operations) {
  constexpr ScalarOp kOps[] = {
      ScalarOp::kAdd,  ScalarOp::kSub,   ScalarOp::kMul,       ScalarOp::kDiv,    ScalarOp::kMin,     ScalarOp::kMax,
      ScalarOp::kLess, ScalarOp::kEqual, ScalarOp::kLessEqual, ScalarOp::kSelect, ScalarOp::kNeg,     ScalarOp::kExp,
      ScalarOp::kLog,  ScalarOp::kSqrt,  ScalarOp::kAbs,       ScalarOp::kSign,   ScalarOp::kErf,     ScalarOp::kSin,
      ScalarOp::kCos,  ScalarOp::kAcos,  ScalarOp::kTanh,      ScalarOp::kFloor,  ScalarOp::kSigmoid, ScalarOp::kPow};
  ScalarExpr expr;
  std::vector<ScalarId> ids{expr.input(0), expr.input(1), expr.input(2), expr.constant(2), expr.constant(0.25)};
  const auto any = [&] { return ids[random() % ids.size()]; };
  for (int i = 0; i < operations; ++i) {
    const ScalarOp op = kOps[random() % std::size(kOps)];
    const int arity = arity_of(op);
    const ScalarId a = any();
    const ScalarId b = arity > 1 ? any() : ScalarId();
    ids.push_back(expr.make(op, a, b, arity > 2 ? any() : ScalarId()));
  }
  expr.set_results({ids.back(), any()});
  return expr;
}

}  // namespace xrun::testing
