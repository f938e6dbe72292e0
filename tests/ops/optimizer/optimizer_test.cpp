#include "ops/optimizer/optimizer.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "graph/base/random.h"
#include "tests/support/optimizers.h"

namespace xrun::ops {
namespace {

std::vector<float> draw(size_t n, uint64_t key) {
  const RandomStream stream(key, 5);
  std::vector<float> v(n);
  for (size_t i = 0; i < n; ++i) {
    v[i] = stream.uniform(i, -1, 1);
  }
  return v;
}

TEST(Optimizer, AdamwFollowsItsFormulaInF64) {
  const OptimizerForm form = *optimizer_form(test::optimizer("adamw", {{"weight_decay", 0.02}}));
  constexpr size_t kSize = 37;  // not a multiple of the lanes
  std::vector<float> w = draw(kSize, 1);
  std::vector<float> m(kSize);
  std::vector<float> v(kSize);
  std::vector<double> w64(w.begin(), w.end());
  std::vector<double> m64(kSize);
  std::vector<double> v64(kSize);
  for (int64_t step = 0; step < 20; ++step) {
    const std::vector<float> g = draw(kSize, 100 + static_cast<uint64_t>(step));
    update(detect_isa(), form, update_scalars(form, 4e-3, 0.02, true, step), w.data(), g.data(), {m.data(), v.data()},
           kSize);
    for (size_t i = 0; i < kSize; ++i) {
      const double gi = static_cast<double>(g[i]);
      m64[i] = 0.9 * m64[i] + 0.1 * gi;
      v64[i] = 0.999 * v64[i] + 0.001 * gi * gi;
      const double mh = m64[i] / (1 - std::pow(0.9, static_cast<double>(step + 1)));
      const double vh = v64[i] / (1 - std::pow(0.999, static_cast<double>(step + 1)));
      w64[i] -= 4e-3 * (mh / (std::sqrt(vh) + 1e-8) + 0.02 * w64[i]);
    }
  }
  for (size_t i = 0; i < kSize; ++i) {
    EXPECT_NEAR(static_cast<double>(w[i]), w64[i], 2e-6) << i;
  }
}

// Whatever the ranges, rows with a gradient are updated as by `update`, and all others keep their bits.
TEST(Optimizer, RowsWithoutAGradientAreLeftAsTheyAre) {
  constexpr int64_t kRow = 19;  // not a multiple of the lanes
  constexpr int64_t kRows = 7;
  const auto has_gradient = [](int64_t i) { return i / kRow == 0 || i / kRow == 3 || i / kRow == 4; };
  for (const double ema : {0.0, 0.5}) {
    const OptimizerForm form = *optimizer_form(test::optimizer("adamw", {{"weight_decay", 0.02}}), {}, ema);
    const UpdateScalars scalars = update_scalars(form, 4e-3, 0.02, true, 3);
    const std::vector<float> w = draw(kRow * kRows, 1);
    const std::vector<float> m = draw(kRow * kRows, 2);
    const std::vector<float> v(kRow * kRows, 0.5F);
    std::vector<float> g = draw(kRow * kRows, 4);
    for (int64_t i = 0; i < kRow * kRows; ++i) {
      g[static_cast<size_t>(i)] =
          !has_gradient(i) || i % kRow < 4 ? (i % 2 == 0 ? 0.0F : -0.0F) : g[static_cast<size_t>(i)];
    }
    struct Tensors {
      std::vector<float> w, m, v, mean;
      UpdateStates states(bool with_mean) { return {m.data(), v.data(), with_mean ? mean.data() : nullptr}; }
    };
    Tensors whole{w, m, v, w};
    update(detect_isa(), form, scalars, whole.w.data(), g.data(), whole.states(ema > 0), kRow * kRows);
    for (const int64_t step : {kRow * kRows, int64_t{16}, int64_t{5}, kRow + 1}) {
      Tensors rows{w, m, v, std::vector<float>(w.size(), 2)};
      for (int64_t at = 0; at < kRow * kRows; at += step) {
        update_rows(detect_isa(), form, scalars, rows.w.data(), g.data(), rows.states(ema > 0), kRow, at,
                    std::min(at + step, kRow * kRows));
      }
      for (int64_t i = 0; i < kRow * kRows; ++i) {
        const auto at = static_cast<size_t>(i);
        EXPECT_EQ(rows.w[at], has_gradient(i) ? whole.w[at] : w[at]) << i;
        EXPECT_EQ(rows.m[at], has_gradient(i) ? whole.m[at] : m[at]) << i;
        EXPECT_EQ(rows.v[at], has_gradient(i) ? whole.v[at] : v[at]) << i;
        EXPECT_EQ(rows.mean[at], ema > 0 ? 2 + (rows.w[at] - 2) * 0.5F : 2) << "the mean follows all rows";
      }
    }
  }
}

TEST(Optimizer, TheRunningMeanFollowsTheUpdatedWeights) {
  for (const char* name : {"sgd", "adamw"}) {
    const OptimizerForm form = *optimizer_form(test::optimizer(name), {}, 0.75);
    EXPECT_EQ(form.kept_states(), form.states + 1) << name;
    constexpr size_t kSize = 37;  // not a multiple of the lanes
    std::vector<float> w = draw(kSize, 1);
    std::vector<std::vector<float>> states(static_cast<size_t>(form.states), std::vector<float>(kSize));
    std::vector<float> mean = w;
    std::vector<double> mean64(w.begin(), w.end());
    UpdateStates pointers{};
    std::ranges::transform(states, pointers.begin(), [](std::vector<float>& state) { return state.data(); });
    pointers[states.size()] = mean.data();
    for (int64_t step = 0; step < 20; ++step) {
      const std::vector<float> g = draw(kSize, 100 + static_cast<uint64_t>(step));
      update(detect_isa(), form, update_scalars(form, 0.1, 0.02, true, step), w.data(), g.data(), pointers, kSize);
      for (size_t i = 0; i < kSize; ++i) {
        mean64[i] = 0.75 * mean64[i] + 0.25 * static_cast<double>(w[i]);
      }
    }
    for (size_t i = 0; i < kSize; ++i) {
      EXPECT_NEAR(static_cast<double>(mean[i]), mean64[i], 1e-6) << name << " " << i;
    }
  }
}

TEST(Optimizer, SquaresAreSixteenRunningSumsInF64) {
  for (const size_t n : {1U, 15U, 16U, 37U, 4096U}) {
    const std::vector<float> g = draw(n, 7);
    double sums[16] = {};
    for (size_t i = 0; i < n; ++i) {
      sums[i % 16] += static_cast<double>(g[i]) * static_cast<double>(g[i]);
    }
    for (size_t width = 8; width > 0; width /= 2) {
      for (size_t i = 0; i < width; ++i) {
        sums[i] += sums[i + width];
      }
    }
    for (const Isa isa : {Isa::kAvx2, detect_isa()}) {
      EXPECT_EQ(sum_of_squares(isa, g.data(), static_cast<int64_t>(n)), sums[0]) << n;
    }
  }
}

TEST(Optimizer, SgdWithMomentumFollowsItsFormulaWithAndWithoutNesterov) {
  for (const bool nesterov : {false, true}) {
    const OptimizerForm form =
        *optimizer_form(test::optimizer("sgd", {{"momentum", 0.9}, {"weight_decay", 0.1}, {"nesterov", nesterov}}));
    EXPECT_EQ(form.states, 1);
    std::vector<float> w{1.0F};
    std::vector<float> v{0.5F};
    const std::vector<float> g{0.25F};
    update(detect_isa(), form, update_scalars(form, 0.1, form.weight_decay, true, 0), w.data(), g.data(), {v.data()},
           1);
    const double grad = 0.25 + 0.1;
    const double velocity = 0.9 * 0.5 + grad;
    EXPECT_NEAR(static_cast<double>(v[0]), velocity, 1e-6);
    EXPECT_NEAR(static_cast<double>(w[0]), 1 - 0.1 * (nesterov ? grad + 0.9 * velocity : velocity), 1e-6);
  }
}

TEST(Optimizer, GradientsAreScaledThenClippedByElementAndNanIsKept) {
  const OptimizerForm form = *optimizer_form(test::optimizer("sgd"));
  std::vector<float> w(5, 1.0F);
  const std::vector<float> g{0.5F, -0.5F, 10.0F, -10.0F, std::numeric_limits<float>::quiet_NaN()};
  update(detect_isa(), form, update_scalars(form, 1, 0, false, 0, 0.5, 2), w.data(), g.data(), {}, 5);
  EXPECT_EQ(w[0], 0.75F);
  EXPECT_EQ(w[1], 1.25F);
  EXPECT_EQ(w[2], -1.0F);
  EXPECT_EQ(w[3], 3.0F);
  EXPECT_TRUE(std::isnan(w[4]));
}

TEST(Optimizer, ATensorWithoutDecayIsUnchangedByAGradientOfZero) {
  const OptimizerForm form = *optimizer_form(test::optimizer("adamw"));
  std::vector<float> w{2.0F};
  std::vector<float> zero(1);
  std::vector<float> m(1);
  std::vector<float> v(1);
  update(detect_isa(), form, update_scalars(form, 0.1, form.weight_decay, false, 0), w.data(), zero.data(),
         {m.data(), v.data()}, 1);
  EXPECT_EQ(w[0], 2.0F);
  update(detect_isa(), form, update_scalars(form, 0.1, form.weight_decay, true, 0), w.data(), zero.data(),
         {m.data(), v.data()}, 1);
  EXPECT_LT(w[0], 2.0F);
}

TEST(Optimizer, BitsDoNotDependOnWhereARangeIsCutNorOnTheInstructionSet) {
  const OptimizerForm form = *optimizer_form(test::optimizer("adamw"));
  const UpdateScalars scalars = update_scalars(form, 1e-3, 0.01, true, 4);
  constexpr size_t kSize = 203;
  const std::vector<float> g = draw(kSize, 2);
  const auto run = [&](Isa isa, size_t cut) {
    std::vector<float> w = draw(kSize, 3);
    std::vector<float> m = draw(kSize, 4);
    std::vector<float> v(kSize, 0.3F);
    update(isa, form, scalars, w.data(), g.data(), {m.data(), v.data()}, static_cast<int64_t>(cut));
    update(isa, form, scalars, w.data() + cut, g.data() + cut, {m.data() + cut, v.data() + cut},
           static_cast<int64_t>(kSize - cut));
    return w;
  };
  const std::vector<float> whole = run(Isa::kAvx2, kSize);
  for (const size_t cut : {size_t{1}, size_t{16}, size_t{77}}) {
    EXPECT_EQ(run(Isa::kAvx2, cut), whole);
  }
  if (detect_isa() >= Isa::kAvx512) {
    EXPECT_EQ(run(Isa::kAvx512, 5), whole);
  }
}

TEST(Optimizer, SgdAndAdamwHaveKernels) {
  const OptimizerForm plain = *optimizer_form(test::optimizer("sgd"));
  EXPECT_EQ(plain.kind, OptimizerKind::kSgd);
  EXPECT_EQ(plain.states, 0);
  for (const bool nesterov : {false, true}) {
    const OptimizerForm form =
        *optimizer_form(test::optimizer("sgd", {{"momentum", 0.75}, {"nesterov", nesterov}, {"weight_decay", 0.25}}));
    EXPECT_EQ(form.kind, OptimizerKind::kSgd);
    EXPECT_EQ(form.momentum, 0.75);
    EXPECT_EQ(form.nesterov, nesterov);
    EXPECT_EQ(form.weight_decay, 0.25);
    EXPECT_EQ(form.states, 1);
  }
  const OptimizerForm adamw = *optimizer_form(test::optimizer("adamw", {{"beta1", 0.5}, {"eps", 0.5}}));
  EXPECT_EQ(adamw.kind, OptimizerKind::kAdamw);
  EXPECT_EQ(adamw.beta1, 0.5);
  EXPECT_EQ(adamw.beta2, 0.999);
  EXPECT_EQ(adamw.eps, 0.5);
  for (const std::string name : {"lars", "lamb"}) {
    EXPECT_EQ(optimizer_form(test::optimizer(name))->kind, OptimizerKind::kOwn) << name;
  }
}

// A kernel must compute the same as the loop of its rule, compiled or interpreted, with each instruction set.
TEST(Optimizer, KernelsHaveTheBitsOfTheirRules) {
  constexpr size_t kSize = 300;  // more than a block of the interpreter
  for (const CallSpec& call : {test::optimizer("sgd"), test::optimizer("sgd", {{"momentum", 0.9}}),
                               test::optimizer("sgd", {{"momentum", 0.9}, {"nesterov", true}}),
                               test::optimizer("adamw", {{"beta2", 0.99}, {"eps", 1e-6}})}) {
    const OptimizerForm kernel = *optimizer_form(call);
    ASSERT_NE(kernel.kind, OptimizerKind::kOwn);
    const UpdateRule rule = *read_update_rule(call.args);
    for (const bool compiled : {false, true}) {
      auto own = OwnUpdate::make(rule, compiled ? std::optional(detect_isa()) : std::nullopt);
      ASSERT_TRUE(own.ok()) << own.error().message;
      const OptimizerForm loop{.kind = OptimizerKind::kOwn,
                               .states = rule.states,
                               .own = std::make_shared<const OwnUpdate>(*std::move(own))};
      for (const Isa isa : {Isa::kAvx2, detect_isa()}) {
        std::vector<float> w[2] = {draw(kSize, 1), draw(kSize, 1)};
        std::vector<float> m[2] = {std::vector<float>(kSize), std::vector<float>(kSize)};
        std::vector<float> v = m[0];
        std::vector<float> v_of_loop = v;
        for (int64_t step = 0; step < 5; ++step) {
          const std::vector<float> g = draw(kSize, 100 + static_cast<uint64_t>(step));
          const bool decays = step % 2 == 0;
          const double limit = step < 3 ? std::numeric_limits<double>::infinity() : 0.25;
          update(isa, kernel, update_scalars(kernel, 0.1, 0.02, decays, step, 0.5, limit), w[0].data(), g.data(),
                 {m[0].data(), v.data()}, kSize);
          update(isa, loop, update_scalars(loop, 0.1, 0.02, decays, step, 0.5, limit), w[1].data(), g.data(),
                 {m[1].data(), v_of_loop.data()}, kSize);
        }
        EXPECT_EQ(w[0], w[1]) << call.name << "(" << to_text(without_update_rule(call.args)) << ")";
        EXPECT_EQ(m[0], m[1]);
        EXPECT_EQ(v, v_of_loop);
      }
    }
  }
}

TEST(Optimizer, AnOptimizerWithoutAnUpdateRuleIsRejected) {
  const auto form = optimizer_form({.name = "sgd", .args = {}, .span = {}});
  ASSERT_FALSE(form.ok());
  EXPECT_EQ(form.error().code, "XG0303");
}

}  // namespace
}  // namespace xrun::ops
