#include "ops/optimizer.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <vector>

#include "graph/base/random.h"
#include "graph/optimizer_def.h"

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
  const OptimizerForm form = *optimizer_form({.name = "adamw", .args = {{"weight_decay", 0.02}}});
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

TEST(Optimizer, TheRunningMeanFollowsTheUpdatedWeights) {
  for (const char* name : {"sgd", "adamw"}) {
    const OptimizerForm form = *optimizer_form({.name = name, .args = {}}, {}, 0.75);
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
        *optimizer_form({.name = "sgd", .args = {{"momentum", 0.9}, {"weight_decay", 0.1}, {"nesterov", nesterov}}});
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

TEST(Optimizer, GradientsAreScaledAndThenBoundedOneByOneAndNanStays) {
  const OptimizerForm form = *optimizer_form({.name = "sgd", .args = {}});
  std::vector<float> w(5, 1.0F);
  const std::vector<float> g{0.5F, -0.5F, 10.0F, -10.0F, std::numeric_limits<float>::quiet_NaN()};
  update(detect_isa(), form, update_scalars(form, 1, 0, false, 0, 0.5, 2), w.data(), g.data(), {}, 5);
  EXPECT_EQ(w[0], 0.75F);
  EXPECT_EQ(w[1], 1.25F);
  EXPECT_EQ(w[2], -1.0F);
  EXPECT_EQ(w[3], 3.0F);
  EXPECT_TRUE(std::isnan(w[4]));
}

TEST(Optimizer, TensorsThatDoNotDecayKeepTheirSizeWithoutGradient) {
  const OptimizerForm form = *optimizer_form({.name = "adamw", .args = {}});
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
  const OptimizerForm form = *optimizer_form({.name = "adamw", .args = {}});
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

TEST(Optimizer, RefusesWhatHasNoUpdate) {
  EXPECT_FALSE(optimizer_form({.name = "nothing"}).ok());
  EXPECT_EQ(find_optimizer("nothing"), nullptr);
  EXPECT_EQ(find_optimizer("adamw")->states({}), (std::vector<std::string>{"m", "v"}));
  EXPECT_TRUE(find_optimizer("sgd")->states({}).empty());
}

TEST(Optimizer, FormsHaveTheStatesAndDefaultsOfTheirDefinitions) {
  for (const OptimizerDef* def : all_optimizers()) {
    const OptimizerForm form = *optimizer_form({.name = std::string(def->name)});
    EXPECT_EQ(static_cast<size_t>(form.states), def->states({}).size()) << def->name;
    EXPECT_EQ(form.has_trust_ratio(), def->trust != TrustNorm::kNone) << def->name;
  }
  const OptimizerForm lamb = *optimizer_form({.name = "lamb"});
  EXPECT_EQ(lamb.eps, 1e-6);
  EXPECT_EQ(lamb.weight_decay, 0.01);
  const OptimizerForm lars = *optimizer_form({.name = "lars"});
  EXPECT_EQ(lars.momentum, 0.9);
  EXPECT_EQ(lars.weight_decay, 1e-4);
  EXPECT_EQ(lars.trust, 0.001);
}

TEST(Optimizer, OnlyStepsOfSgdVanishWithTheGradients) {
  for (const OptimizerDef* def : all_optimizers()) {
    EXPECT_EQ(steps_vanish(*def, {}), def->name == "sgd" || def->name == "lars") << def->name;
  }
}

TEST(Curve, PiecesFollowOneAnotherAndTheLastValueHolds) {
  const Curve curve{{{.kind = CurvePiece::kWarmup, .from = 0, .to = 1, .steps = 10},
                     {.kind = CurvePiece::kCosine, .from = 1, .to = 0, .steps = 20}}};
  EXPECT_DOUBLE_EQ(curve.at(0), 0);
  EXPECT_DOUBLE_EQ(curve.at(5), 0.5);
  EXPECT_DOUBLE_EQ(curve.at(10), 1);
  EXPECT_NEAR(curve.at(20), 0.5, 1e-12);
  EXPECT_NEAR(curve.at(30), 0, 1e-12);
  EXPECT_NEAR(curve.at(1000), 0, 1e-12);
}

TEST(Curve, PolyAndStepsHaveTheirValues) {
  const Curve poly{{{.kind = CurvePiece::kPoly, .from = 0.4, .to = 0, .steps = 100, .power = 2}}};
  EXPECT_NEAR(poly.at(50), 0.1, 1e-12);
  const Curve steps{{{.kind = CurvePiece::kSteps, .from = 1, .steps = 100, .at = {10, 20}, .by = 0.1}}};
  EXPECT_DOUBLE_EQ(steps.at(9), 1);
  EXPECT_DOUBLE_EQ(steps.at(10), 0.1);
  EXPECT_NEAR(steps.at(99), 0.01, 1e-15);
}

}  // namespace
}  // namespace xrun::ops
