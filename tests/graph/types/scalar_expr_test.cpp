// Scalar expressions: their text, simplification, derivatives compared with differences, and texts that are not
// expressions.
#include "graph/types/scalar_expr.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

#include "tests/support/random_expr.h"

namespace xrun {
namespace {

using ::testing::HasSubstr;
using testing::random_expr;

ScalarExpr parsed(std::string_view text) {
  auto expr = parse_scalar_expr(text);
  EXPECT_TRUE(expr.ok()) << text << ": " << (expr.ok() ? "" : expr.error().message);
  return expr.ok() ? *std::move(expr) : ScalarExpr();
}

TEST(ScalarExpr, TextParsesBack) {
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    const ScalarExpr expr = random_expr(random, 1 + static_cast<int>(seed % 90));
    const std::string text = to_text(expr);
    const ScalarExpr again = parsed(text);
    ASSERT_EQ(to_text(again), text) << "seed " << seed;
    const double point[] = {0.7, -0.3, 1.9};
    const std::vector<double> values = evaluate(expr, point);
    const std::vector<double> others = evaluate(again, point);
    for (size_t r = 0; r < values.size(); ++r) {
      ASSERT_TRUE(values[r] == others[r] || (std::isnan(values[r]) && std::isnan(others[r]))) << "seed " << seed;
    }
  }
}

TEST(ScalarExpr, IsPrintedInReadableForm) {
  const auto canonical = [](std::string_view text) { return to_text(parsed(text)); };
  EXPECT_EQ(canonical("x0*min(max(x0+3,0),6)/6"), "x0 * min(max(x0 + 3, 0), 6) / 6");
  EXPECT_EQ(canonical("exp(x0) / (1 + exp(x0))"), "t0 = exp(x0); t0 / (1 + t0)");
  EXPECT_EQ(canonical("x0 - (x1 - x2)"), "x0 - (x1 - x2)");
  EXPECT_EQ(canonical("(x0 + x1) + x2"), "x0 + x1 + x2");
  EXPECT_EQ(canonical("x0 + (x1 + x2)"), "x0 + (x1 + x2)");
  EXPECT_EQ(canonical("-x0 ^ 2.5"), "-x0 ^ 2.5");
  EXPECT_EQ(canonical("(-x0) ^ 2.5"), "(-x0) ^ 2.5");
  EXPECT_EQ(canonical("select(x0 <= 0, -0.5, x1 == x0)"), "select(x0 <= 0, -0.5, x1 == x0)");
  EXPECT_EQ(canonical("1e-7 * x0"), "1e-07 * x0");
}

TEST(ScalarExpr, LeavesOutOperationsWithoutEffect) {
  const auto simple = [](std::string_view text) { return to_text(parsed(text)); };
  EXPECT_EQ(simple("x0 * 1 + 0"), "x0");
  EXPECT_EQ(simple("x0 / 1 - 0"), "x0");
  EXPECT_EQ(simple("-(-x0)"), "x0");
  EXPECT_EQ(simple("x0 + -x1"), "x0 - x1");
  EXPECT_EQ(simple("2 * 3 * x0"), "6 * x0");
  EXPECT_EQ(simple("x0 ^ 2"), "x0 * x0");
  EXPECT_EQ(simple("x0 ^ 3"), "x0 * (x0 * x0)");
  EXPECT_EQ(simple("x0 ^ (-1)"), "1 / x0");
  EXPECT_EQ(simple("x0 ^ 0.5"), "sqrt(x0)");
  EXPECT_EQ(simple("select(1, x0, x1)"), "x0");
  // Simplifying these expressions would change a rounding, a NaN or an infinity.
  EXPECT_EQ(simple("x0 * 0"), "x0 * 0");
  EXPECT_EQ(simple("x0 - x0"), "x0 - x0");
  EXPECT_EQ(simple("x0 / 3"), "x0 / 3");
  EXPECT_EQ(simple("log(0)"), "log(0)");
}

TEST(ScalarExpr, MergesEqualOperations) {
  ScalarExpr expr;
  const ScalarId x = expr.input(0);
  const ScalarId y = expr.input(1);
  EXPECT_EQ(expr.make(ScalarOp::kMul, x, y), expr.make(ScalarOp::kMul, y, x));
  EXPECT_NE(expr.make(ScalarOp::kSub, x, y), expr.make(ScalarOp::kSub, y, x));
}

// Derivatives are compared at points where differences of two widths agree, so that no corner lies between.
TEST(ScalarExpr, DerivativesAgreeWithDifferences) {
  int compared = 0;
  int at_edges = 0;
  for (uint32_t seed = 0; seed < 10'000; ++seed) {
    std::mt19937 random(seed);
    ScalarExpr expr = random_expr(random, 1 + static_cast<int>(seed % 12));
    expr.set_results({expr.results()[0]});
    const int wanted[] = {0, 1, 2};
    const ScalarExpr gradient = gradient_of(expr, 3, wanted);
    std::uniform_real_distribution<double> draw(-2, 2);
    const double x[] = {draw(random), draw(random), draw(random)};
    const double dy = draw(random);
    const std::vector<double> made = evaluate(gradient, std::vector{x[0], x[1], x[2], dy});
    for (size_t i = 0; i < 3; ++i) {
      const auto difference = [&](double h) {
        double up[] = {x[0], x[1], x[2]};
        double down[] = {x[0], x[1], x[2]};
        up[i] += h;
        down[i] -= h;
        return dy * (evaluate(expr, up)[0] - evaluate(expr, down)[0]) / (2 * h);
      };
      const double narrow = difference(1e-6);
      const double wide = difference(3e-6);
      const double size = 1 + std::fabs(narrow);
      if (!std::isfinite(narrow) || size > 1e4 || std::fabs(narrow - wide) > 1e-7 * size) {
        continue;
      }
      if (!std::isfinite(made[i])) {
        ++at_edges;  // for example at acos(-1), or if two factors give 0 / 0
        continue;
      }
      ++compared;
      ASSERT_NEAR(made[i], narrow, 1e-4 * size) << "seed " << seed << ", input " << i << ": " << to_text(expr);
    }
  }
  EXPECT_GT(compared, 15'000);
  EXPECT_LT(at_edges, 60);
}

TEST(ScalarExpr, DerivativesAtCornersAreFinite) {
  const auto at = [](std::string_view text, double x) {
    const int wanted[] = {0};
    return evaluate(gradient_of(parsed(text), 1, wanted), std::vector{x, 1.0})[0];
  };
  EXPECT_EQ(at("max(x0, 0)", 0), 0);
  EXPECT_EQ(at("max(x0, 0)", 2), 1);
  EXPECT_EQ(at("abs(x0)", 0), 0);
  EXPECT_EQ(at("select(0 < x0, log(x0), 0)", 0), 0);  // not 0 / 0 of the branch that is not chosen
  EXPECT_LT(at("sigmoid(x0)", -200), 1e-80);          // not infinity / infinity
  EXPECT_EQ(at("0 ^ x0", 2), 0);
  EXPECT_EQ(at("floor(x0) * x0", 2.5), 2);
}

TEST(ScalarExpr, GradientsOfLinearExpressionsReadNoInput) {
  const int wanted[] = {0, 1};
  EXPECT_EQ(to_text(gradient_of(parsed("3 * x0 - x1"), 2, wanted)), "x2 * 3, -x2");
}

TEST(ScalarExpr, ReportsOperationsThatAreNeverFinite) {
  const auto name = [](std::string_view text) {
    const ScalarExpr expr = parsed(text);
    const ScalarNode* node = never_finite(expr);
    return node == nullptr ? "" : std::string(name_of(node->op));
  };
  EXPECT_EQ(name("log(-1 - x0 * x0)"), "log");
  EXPECT_EQ(name("1 / (x0 - x0)"), "/");
  EXPECT_EQ(name("acos(2 + abs(x0))"), "acos");
  EXPECT_EQ(name("select(0 < x0, log(x0), 0)"), "");
  EXPECT_EQ(name("exp(x0) / (1 + exp(x0))"), "");
}

TEST(ScalarExpr, RejectsTextThatIsNotAnExpression) {
  for (const char* text :
       {"", "x", "x0 +", "(x0", "x0)", "f(x0)", "min(x0)", "exp(x0, x0)", "t0 = x0", "t0 = x0; t0 = x0; t0", "x0 x1",
        "1e999", "x99", "x0; x1", "x0 ^ x1 ^ x2", "x0 < x1 < x2", "\xff", "xrun"}) {
    const auto expr = parse_scalar_expr(text);
    ASSERT_FALSE(expr.ok()) << text;
    EXPECT_EQ(expr.error().code, "XG0303");
    EXPECT_THAT(expr.error().message, HasSubstr("cannot be read"));
  }
  // Inputs that no result reads are removed.
  EXPECT_EQ(parsed("t0 = exp(x9); select(1, x0, t0)").nodes().size(), 1U);
  EXPECT_FALSE(parse_scalar_expr(std::string(100'000, '(')).ok());
  EXPECT_FALSE(parse_scalar_expr(std::string(100'000, '-') + "x0").ok());
}

TEST(ScalarExpr, LongExpressionsArePrintedInNamedParts) {
  ScalarExpr expr;
  ScalarId id = expr.input(0);
  for (int i = 0; i < 4000; ++i) {
    id = expr.make(i % 2 == 0 ? ScalarOp::kSin : ScalarOp::kNeg, id);
  }
  expr.set_results({id});
  EXPECT_EQ(expr.operations(), 4000U);
  EXPECT_EQ(to_text(parsed(to_text(expr))), to_text(expr));
}

}  // namespace
}  // namespace xrun
