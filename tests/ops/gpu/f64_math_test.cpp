// Functions in f64 that processors and GPUs share, and the margins of heads that are computed with them.
#include "graph/types/scalar_expr.h"
#include "ops/head/margin.h"
#include "ops/head/margin_arguments.h"
#include "ops/head/margin_formulas.h"
#include "ops/head/margin_program.h"
#include "tests/ops/gpu/kernel_runner.h"

namespace xrun::ops::gpu {
namespace {

// The distance from the true value in units of the last place.
double units(double got, long double want) {
  const double size = std::fabs(static_cast<double>(want));
  const double unit = std::nextafter(size, INFINITY) - size;
  return static_cast<double>(std::fabs(static_cast<long double>(got) - want)) / unit;
}

// Cosines as logits have them: the ends, numbers near them, and random ones.
std::vector<float> cosines(size_t random_ones) {
  std::vector<float> values{1, -1, 0, -0.0F, 0.5F, -0.5F, std::cos(2.6F)};
  for (int i = 1; i < 25; ++i) {
    values.push_back(1 - std::ldexp(1.0F, -i));
    values.push_back(std::ldexp(1.0F, -i) - 1);
  }
  std::mt19937_64 random(kSeed);
  while (values.size() < random_ones) {
    values.push_back(std::uniform_real_distribution<float>(-1, 1)(random));
  }
  return values;
}

TEST(F64Math, FunctionsAreWithinOneUnitOfTheLastPlace) {
  std::mt19937_64 random(kSeed);
  const auto uniform = [&](double size) { return std::uniform_real_distribution<double>(-size, size)(random); };
  double acos = 0, cos = 0, sin = 0, exp = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    double x = uniform(1);
    // A third of the cosines lie near 1 and -1, and some are numbers of f32, as logits are.
    x = i % 3 == 0 ? std::copysign(1 - std::ldexp(std::fabs(x), -static_cast<int>(random() % 40)), x) : x;
    x = i % 7 == 0 ? static_cast<double>(static_cast<float>(x)) : x;
    acos = std::max(acos, units(acos64(x), std::acos(static_cast<long double>(x))));
    // A fifth of the angles lie near multiples of pi / 4, and some are large.
    double angle = uniform(i % 11 == 0 ? 1e5 : 30);
    if (i % 5 == 0) {
      angle = static_cast<double>(i % 64) * kPi64 / 4 + std::ldexp(uniform(1), -static_cast<int>(random() % 30));
    }
    cos = std::max(cos, units(cos64(angle), std::cos(static_cast<long double>(angle))));
    sin = std::max(sin, units(sin64(angle), std::sin(static_cast<long double>(angle))));
    const double power = i % 2 == 0 ? uniform(700) : -std::fabs(uniform(25));
    exp = std::max(exp, units(exp64(power), std::exp(static_cast<long double>(power))));
  }
  EXPECT_LT(acos, 1) << kSeed;
  EXPECT_LT(cos, 1) << kSeed;
  EXPECT_LT(sin, 1) << kSeed;
  EXPECT_LT(exp, 1) << kSeed;
}

// Compares functions with those of `ScalarExpr`, which call libm.
TEST(F64Math, OperationsOfMarginsAreThoseOfScalarExpressions) {
  std::mt19937_64 random(kSeed);
  const auto uniform = [&](double size) { return std::uniform_real_distribution<double>(-size, size)(random); };
  static_assert(static_cast<uint32_t>(MarginOp::kF16) == static_cast<uint32_t>(ScalarOp::kF16));
  for (auto number = static_cast<uint32_t>(ScalarOp::kAdd); number <= static_cast<uint32_t>(ScalarOp::kF16); ++number) {
    const auto op = static_cast<ScalarOp>(number);
    for (int i = 0; i < 4000; ++i) {
      double a = uniform(i % 3 == 0 ? 20 : 1), b = i % 4 == 0 ? std::round(uniform(3)) : uniform(2);
      a = i < 8 ? std::array{0.0, 1.0, -1.0, 0.5, 65519.0, 1e6, 3e-6, -2.0}[static_cast<size_t>(i)] : a;
      b = i % 9 == 0 ? a : b;
      const double want = apply(op, a, b, 0.25), got = apply_margin_op(static_cast<MarginOp>(number), a, b, 0.25);
      if (std::isnan(want) || std::isinf(want)) {
        ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : got == want) << name_of(op) << " " << a << " " << b;
      } else {
        // A power has the error of its logarithm, which the exponential enlarges.
        const double power = op == ScalarOp::kPow ? std::fabs(b * std::log(std::max(std::fabs(a), 1e-30))) : 0;
        const double size = std::max(1.0, 8 * (1 + std::fabs(a) + power) * std::fabs(want));
        ASSERT_NEAR(got, want, 4e-16 * size) << name_of(op) << " " << a << " " << b;
      }
    }
    const bool carries = arity_of(op) == 1 && op != ScalarOp::kF16;
    EXPECT_TRUE(!carries || std::isnan(apply_margin_op(static_cast<MarginOp>(number), NAN, 0, 0))) << name_of(op);
  }
}

// Returns the nodes of an expression as head_own_margin reads them.
std::vector<MarginNode> program_of(const ScalarExpr& expr) {
  std::vector<MarginNode> nodes;
  for (const ScalarNode& node : expr.nodes()) {
    const auto arg = [&](size_t i) { return node.args[i].valid() ? static_cast<int32_t>(node.args[i].index) : -1; };
    nodes.push_back({node.value, {arg(0), arg(1), arg(2)}, static_cast<uint32_t>(node.op)});
  }
  return nodes;
}

TEST(F64Math, OwnMarginsAreThoseOfTheProcessor) {
  auto x = cosines(200);
  x.push_back(NAN);
  const auto count = static_cast<int64_t>(x.size());
  std::vector<int32_t> labels(x.size(), 4);
  labels[5] = 9;
  for (const char* text : {"x0 - 0.3 * (1 - x0 * x0)", "cos(acos(min(x0, 0.999)) + 0.3) - 0.1",
                           "tanh(2 * x0) * erf(x0 + 0.5) - exp(x0 - 2)", "select(x0 < 0.2, x0, x0 - log(1 + x0 * x0))",
                           "(x0 + 2) ^ 1.7 / 8"}) {
    const auto made = own_margin({{"f", std::string(text)}, {"scale", 16.0}});
    ASSERT_TRUE(made.ok()) << text << ": " << made.error().message;
    const ScalarExpr& own = *made->own;
    const std::vector<MarginNode> nodes = program_of(own);
    for (const Target target : kTargets) {
      Machine machine(target);
      const uint64_t psi = machine.add("psi", std::vector<double>(x.size(), -7));
      const uint64_t slope = machine.add("slope", std::vector<double>(x.size(), -7));
      machine.run_each("head_margins", "head_own_margin", count, machine.add("targets", x),
                       machine.add("labels", labels), machine.add("nodes", nodes),
                       machine.empty<double>("values", nodes.size() * x.size()), psi, slope,
                       static_cast<int64_t>(nodes.size()), static_cast<int64_t>(own.results()[0].index),
                       static_cast<int64_t>(own.results()[1].index), int64_t{5}, count, int64_t{0});
      const auto got_psi = machine.read<double>(psi, x.size()), got_slope = machine.read<double>(slope, x.size());
      for (size_t i = 0; i < x.size(); ++i) {
        const Margin want = i == 5 ? Margin{-7, -7} : margin_of(*made, x[i]);
        if (std::isnan(x[i])) {
          EXPECT_TRUE(std::isnan(got_psi[i])) << text;
          continue;
        }
        ASSERT_NEAR(got_psi[i], want.psi, 1e-14) << text << " at " << x[i];
        if (got_slope[i] != want.slope) {  // both are infinite at the end of an arc cosine
          ASSERT_NEAR(got_slope[i], want.slope, 2e-14 * (1 + std::fabs(want.slope))) << text << " at " << x[i];
        }
      }
    }
  }
}

TEST(F64Math, EndsOfTheRangesAreExact) {
  EXPECT_EQ(acos64(1), 0);
  EXPECT_EQ(acos64(-1), std::acos(-1.0));
  EXPECT_EQ(acos64(0), std::acos(0.0));
  EXPECT_TRUE(std::isnan(acos64(1.5)) && std::isnan(acos64(NAN)));
  EXPECT_EQ(cos64(0), 1);
  EXPECT_EQ(sin64(0), 0);
  EXPECT_TRUE(std::isnan(cos64(NAN)) && std::isnan(sin64(NAN)));
  EXPECT_EQ(exp64(0), 1);
  EXPECT_EQ(exp64(-1000), 0);
  EXPECT_EQ(exp64(1000), INFINITY);
  EXPECT_TRUE(std::isnan(exp64(NAN)));
}

MarginNumbers numbers_of(const MarginForm& form) {
  return {form.m1, form.m2, form.m3, static_cast<uint32_t>(form.grad), form.easy};
}

std::vector<MarginForm> forms() {
  return {{.m3 = 0.4},
          {.m2 = 0.5},
          {.m2 = 0.5, .easy = true},
          {.m1 = 1.35},
          {.m1 = 4},
          {.m1 = 2, .m2 = -0.7, .m3 = 0.1},
          {.m1 = 2, .m2 = 0.4, .grad = MarginGrad::kThreshold},
          {.m1 = 1.2, .m2 = 0.3, .grad = MarginGrad::kExact},
          {.m2 = 0.5, .grad = MarginGrad::kStraight}};
}

TEST(F64Math, MarginsDifferFromThoseOfTheProcessorByAFewUnits) {
  for (const MarginForm& form : forms()) {
    for (const float x : cosines(20'000)) {
      const Margin want = margin_of(form, x);
      const PsiAndSlope got = margin64(numbers_of(form), x);
      ASSERT_NEAR(got.psi, want.psi, 4e-15) << form.m1 << " " << form.m2 << " " << x;
      // Beyond 0 and pi the sine crosses 0, so its error counts, not the relative one of the slope.
      const double root = std::max(std::sqrt(1 - static_cast<double>(x) * x), 4e-4);
      ASSERT_NEAR(got.slope, want.slope, 1e-14 * form.m1 / root) << form.m1 << " " << form.m2 << " " << x;
    }
  }
}

TEST(F64Math, MarginsHaveTheSameBitsOnGpus) {
  auto x = cosines(200);
  x.push_back(NAN);
  const auto count = static_cast<int64_t>(x.size());
  std::vector<int32_t> labels;
  for (size_t i = 0; i < x.size(); ++i) {
    labels.push_back(static_cast<int32_t>(i % 10));
  }
  for (const MarginForm& form : forms()) {
    std::vector<double> psi, slope;
    for (size_t i = 0; i < x.size(); ++i) {
      const PsiAndSlope made = margin64(numbers_of(form), x[i]);
      const bool in_range = labels[i] >= 2 && labels[i] < 9;
      psi.push_back(in_range ? made.psi : -7);
      slope.push_back(in_range ? made.slope : -7);
    }
    for (const Target target : kTargets) {
      Machine machine(target);
      const uint64_t got_psi = machine.add("psi", std::vector<double>(x.size(), -7));
      const uint64_t got_slope = machine.add("slope", std::vector<double>(x.size(), -7));
      machine.run_each("head_margins", "head_margin", count, machine.add("targets", x), machine.add("labels", labels),
                       got_psi, got_slope, int64_t{7}, count, int64_t{2}, form.m1, form.m2, form.m3,
                       static_cast<uint32_t>(form.grad), form.easy ? 1U : 0U);
      EXPECT_TRUE(same_bits(machine.read<double>(got_psi, x.size()), psi)) << form.m1 << " " << form.m2;
      EXPECT_TRUE(same_bits(machine.read<double>(got_slope, x.size()), slope)) << form.m1 << " " << form.m2;
    }
  }
}

}  // namespace
}  // namespace xrun::ops::gpu
