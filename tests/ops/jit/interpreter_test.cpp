// The interpreter of scalar expressions: each operation compared with f64, equal bits on all instruction sets, and
// updates in pieces of any size.
#include "ops/jit/interpreter.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

#include "ops/optimizer/optimizer.h"
#include "tests/ops/op_runner.h"
#include "tests/support/optimizers.h"

namespace xrun::ops {
namespace {

std::vector<float> run(const ScalarExpr& expr, const std::vector<std::vector<float>>& inputs, Isa isa) {
  const Interpreter program(expr, static_cast<int>(inputs.size()), isa);
  const Memory scratch(program.scratch_bytes());
  std::vector<float> results;
  alignas(64) float blocks[3][kScalarBlock];
  for (size_t begin = 0; begin < inputs[0].size(); begin += kScalarBlock) {
    const size_t n = std::min<size_t>(kScalarBlock, inputs[0].size() - begin);
    for (size_t i = 0; i < inputs.size(); ++i) {
      std::copy_n(inputs[i].begin() + static_cast<std::ptrdiff_t>(begin), n, blocks[i]);
      program.inputs(scratch.data())[i] = blocks[i];
    }
    program.run(scratch.data(), static_cast<int64_t>(n));
    const float* made = program.result(scratch.data(), 0);
    results.insert(results.end(), made, made + n);
  }
  return results;
}

ScalarExpr function(ScalarOp op) {
  ScalarExpr expr;
  expr.set_results({expr.make(op, expr.input(0), arity_of(op) > 1 ? expr.input(1) : ScalarId(),
                              arity_of(op) > 2 ? expr.input(2) : ScalarId())});
  return expr;
}

struct Bound {
  ScalarOp op;
  double low, high;
  double ulps;      // largest error of a result, in units of the last place
  double absolute;  // errors up to this size are ignored
};

TEST(Interpreter, EachOperationIsNearItsValueInF64) {
  constexpr Bound kBounds[] = {
      {ScalarOp::kAdd, -5, 5, 0.51, 0},  {ScalarOp::kSub, -5, 5, 0.51, 0},     {ScalarOp::kMul, -5, 5, 0.51, 0},
      {ScalarOp::kDiv, -5, 5, 0.51, 0},  {ScalarOp::kPow, 0.01, 5, 30, 0},     {ScalarOp::kMin, -5, 5, 0, 0},
      {ScalarOp::kMax, -5, 5, 0, 0},     {ScalarOp::kLess, -5, 5, 0, 0},       {ScalarOp::kLessEqual, -5, 5, 0, 0},
      {ScalarOp::kEqual, -5, 5, 0, 0},   {ScalarOp::kSelect, -5, 5, 0, 0},     {ScalarOp::kNeg, -5, 5, 0, 0},
      {ScalarOp::kExp, -80, 80, 2, 0},   {ScalarOp::kLog, 1e-6, 100, 2, 6e-8}, {ScalarOp::kSqrt, 0, 100, 0.51, 0},
      {ScalarOp::kAbs, -5, 5, 0, 0},     {ScalarOp::kSign, -5, 5, 0, 0},       {ScalarOp::kFloor, -50, 50, 0, 0},
      {ScalarOp::kErf, -5, 5, 3, 0},     {ScalarOp::kSin, -1e4, 1e4, 2, 1e-7}, {ScalarOp::kCos, -1e4, 1e4, 2, 1e-7},
      {ScalarOp::kAcos, -1, 1, 3, 2e-7}, {ScalarOp::kTanh, -5, 5, 3, 0},       {ScalarOp::kSigmoid, -50, 50, 3, 0},
      {ScalarOp::kBf16, -50, 50, 0, 0},  {ScalarOp::kF16, -50, 50, 0, 0},
  };
  constexpr size_t kOfAll = static_cast<size_t>(ScalarOp::kF16) - 1;  // all operations except inputs and constants
  static_assert(std::size(kBounds) == kOfAll);
  for (const Bound& bound : kBounds) {
    std::mt19937 random(7);
    std::uniform_real_distribution<float> draw(static_cast<float>(bound.low), static_cast<float>(bound.high));
    std::vector<std::vector<float>> inputs(3, std::vector<float>(20'003));
    for (std::vector<float>& values : inputs) {
      std::ranges::generate(values, [&] { return draw(random); });
    }
    std::fill_n(inputs[0].begin(), 300, 0.0F);  // equal operands, which reach both sides of a choice
    std::fill_n(inputs[1].begin(), 100, 0.0F);
    const bool of_positive = bound.low > 0;
    if (of_positive) {
      std::fill_n(inputs[0].begin(), 300, 1.0F);
    }
    const std::vector<float> results = run(function(bound.op), inputs, detect_isa());
    double worst = 0;
    for (size_t i = 0; i < results.size(); ++i) {
      const double wanted = apply(bound.op, inputs[0][i], inputs[1][i], inputs[2][i]);
      if (std::isnan(wanted) || std::isinf(wanted)) {
        EXPECT_EQ(std::isnan(results[i]), std::isnan(wanted)) << name_of(bound.op) << " of " << inputs[0][i];
        continue;
      }
      const float near = std::fabs(static_cast<float>(wanted));
      const double ulp = static_cast<double>(std::nextafter(near, INFINITY)) - static_cast<double>(near);
      const double error = std::fabs(static_cast<double>(results[i]) - wanted);
      worst = std::max(worst, error <= bound.absolute ? 0 : error / ulp);
    }
    EXPECT_LE(worst, bound.ulps) << name_of(bound.op);
  }
}

TEST(Interpreter, LogarithmsOfSubnormalNumbersAreNearTheirValues) {
  std::vector<float> inputs{0x1p-149F, 0x1.8p-148F, 1e-42F, 1e-40F, 0x1.fffffcp-127F, 0x1p-126F, 0x1.000002p-126F};
  const std::vector<float> results = run(function(ScalarOp::kLog), {inputs}, detect_isa());
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_FLOAT_EQ(results[i], static_cast<float>(std::log(static_cast<double>(inputs[i])))) << inputs[i];
  }
  EXPECT_TRUE(std::isnan(run(function(ScalarOp::kLog), {{-0x1p-149F}}, detect_isa())[0]));
}

TEST(Interpreter, NanAndInfinityArePropagated) {
  const float nan = NAN;
  EXPECT_TRUE(std::isnan(run(function(ScalarOp::kMax), {{nan, 1}, {0, nan}}, detect_isa())[0]));
  EXPECT_TRUE(std::isnan(run(function(ScalarOp::kMax), {{nan, 1}, {0, nan}}, detect_isa())[1]));
  EXPECT_TRUE(std::isnan(run(function(ScalarOp::kMin), {{nan, 1}, {0, nan}}, detect_isa())[1]));
  for (const ScalarOp op : {ScalarOp::kExp, ScalarOp::kLog, ScalarOp::kErf, ScalarOp::kSin, ScalarOp::kAcos,
                            ScalarOp::kTanh, ScalarOp::kSigmoid, ScalarOp::kFloor, ScalarOp::kSign, ScalarOp::kAbs}) {
    EXPECT_TRUE(std::isnan(run(function(op), {{nan}}, detect_isa())[0])) << name_of(op);
  }
  const auto power = [](float a, float b) { return run(function(ScalarOp::kPow), {{a}, {b}}, detect_isa())[0]; };
  EXPECT_NEAR(power(-2, 3), -8, 1e-5);
  EXPECT_NEAR(power(-1.5F, 18), 1477.9, 1e-1);
  EXPECT_TRUE(std::isnan(power(-2, 0.5F)));
  EXPECT_EQ(power(0, 2), 0);
  EXPECT_EQ(power(1, INFINITY), 1);
  EXPECT_FALSE(std::signbit(run(function(ScalarOp::kAbs), {{-0.0F}}, detect_isa())[0]));
  EXPECT_TRUE(std::isnan(run(function(ScalarOp::kSin), {{1e20F}}, detect_isa())[0]));
  EXPECT_EQ(run(function(ScalarOp::kErf), {{INFINITY, -INFINITY}}, detect_isa()), (std::vector<float>{1, -1}));
}

TEST(Interpreter, InstructionSetsHaveTheSameBits) {
  if (detect_isa() < Isa::kAvx512) {
    GTEST_SKIP() << "this processor has AVX2 only";
  }
  const ScalarExpr expr = *parse_scalar_expr(
      "t0 = sigmoid(x0) * exp(x1); select(x0 < x1, sin(t0) + erf(x0), acos(tanh(x1)) ^ 1.7) / (sqrt(abs(t0)) + log(2 + "
      "abs(x0)))");
  std::mt19937 random(3);
  std::normal_distribution<float> draw(0, 3);
  std::vector<std::vector<float>> inputs(2, std::vector<float>(100'000));
  for (std::vector<float>& values : inputs) {
    std::ranges::generate(values, [&] { return draw(random); });
  }
  const std::vector<float> narrow = run(expr, inputs, Isa::kAvx2);
  const std::vector<float> wide = run(expr, inputs, Isa::kAvx512);
  EXPECT_EQ(std::memcmp(narrow.data(), wide.data(), narrow.size() * sizeof(float)), 0);
}

// Returns adamw as a user would declare it in the language.
CallSpec own_adamw() {
  ScalarExpr all = *parse_scalar_expr(
      "t0 = 0.9 * x2 + 0.1 * x1; t1 = 0.999 * x3 + 0.001 * (x1 * x1); "
      "x0 - x4 * (t0 / (1 - 0.9 ^ x5) / (sqrt(t1 / (1 - 0.999 ^ x5)) + 1e-8) + x6 * x0), t0, t1");
  CallSpec call{.name = "own", .args = {{"weight_decay", 0.01}}, .span = {}};
  store_update_rule(*make_update_rule(all, {0, 0}), {"m", "v"}, call.args);
  return call;
}

TEST(OwnUpdate, AgreesWithTheKernel) {
  const OptimizerForm own = *optimizer_form(own_adamw());
  const OptimizerForm kernel = *optimizer_form(test::optimizer("adamw"));
  ASSERT_EQ(own.kind, OptimizerKind::kOwn);
  ASSERT_EQ(kernel.kind, OptimizerKind::kAdamw);
  ASSERT_EQ(own.states, 2);
  std::mt19937 random(5);
  std::normal_distribution<float> draw(0, 1);
  constexpr int64_t kCount = 1000;
  std::vector<float> w(kCount);
  std::ranges::generate(w, [&] { return draw(random); });
  std::vector<float> others = w;
  std::vector<float> states[4] = {std::vector<float>(kCount), std::vector<float>(kCount), std::vector<float>(kCount),
                                  std::vector<float>(kCount)};
  for (int64_t step = 0; step < 20; ++step) {
    std::vector<float> g(kCount);
    std::ranges::generate(g, [&] { return draw(random); });
    const double rate = 0.01 / static_cast<double>(step + 1);
    update(detect_isa(), own, update_scalars(own, rate, 0.01, true, step, 0.5, 1.0), w.data(), g.data(),
           {states[0].data(), states[1].data()}, kCount);
    update(detect_isa(), kernel, update_scalars(kernel, rate, 0.01, true, step, 0.5, 1.0), others.data(), g.data(),
           {states[2].data(), states[3].data()}, kCount);
  }
  for (size_t i = 0; i < w.size(); ++i) {
    ASSERT_NEAR(w[i], others[i], 2e-6) << i;
    ASSERT_NEAR(states[1][i], states[3][i], 1e-7) << i;
  }
}

// States that are assigned the weight, or each other, get the values from before the step.
TEST(OwnUpdate, StatesAssignedFromInputsGetTheOldValues) {
  CallSpec call{.name = "own", .args = {}, .span = {}};
  store_update_rule(*make_update_rule(*parse_scalar_expr("x0 - x4 * x1, x0, x2"), {0, 0}), {"previous", "before"},
                    call.args);
  const OptimizerForm form = *optimizer_form(call);
  for (const size_t n : {13U, 256U, 300U}) {
    std::vector<float> w(n, 3.0F);
    const std::vector<float> g(n, 1.0F);
    std::vector<float> previous(n, 2.0F);
    std::vector<float> before(n, 1.0F);
    update(detect_isa(), form, update_scalars(form, 0.5, 0, true, 0), w.data(), g.data(),
           {previous.data(), before.data()}, static_cast<int64_t>(n));
    EXPECT_EQ(w, std::vector<float>(n, 2.5F)) << n;
    EXPECT_EQ(previous, std::vector<float>(n, 3.0F)) << n;
    EXPECT_EQ(before, std::vector<float>(n, 2.0F)) << n;
  }
}

TEST(OwnUpdate, BitsDoNotDependOnTheSizesOfThePieces) {
  const OptimizerForm own = *optimizer_form(own_adamw());
  const UpdateScalars u = update_scalars(own, 0.01, 0.01, true, 3);
  std::mt19937 random(5);
  std::normal_distribution<float> draw(0, 1);
  std::vector<float> w(777);
  std::vector<float> g(w.size());
  std::ranges::generate(w, [&] { return draw(random); });
  std::ranges::generate(g, [&] { return draw(random); });
  const auto updated = [&](int64_t piece) {
    std::vector<float> all = w;
    std::vector<float> m(w.size(), 0.5F);
    std::vector<float> v(w.size(), 0.25F);
    for (int64_t at = 0; at < static_cast<int64_t>(w.size()); at += piece) {
      const int64_t n = std::min(piece, static_cast<int64_t>(w.size()) - at);
      update(detect_isa(), own, u, all.data() + at, g.data() + at, {m.data() + at, v.data() + at}, n);
    }
    all.insert(all.end(), m.begin(), m.end());
    all.insert(all.end(), v.begin(), v.end());
    return all;
  };
  const std::vector<float> whole = updated(777);
  for (const int64_t piece : {1, 5, 16, 64, 257, 512}) {
    EXPECT_EQ(updated(piece), whole) << piece;
  }
}

}  // namespace
}  // namespace xrun::ops
