// The trust ratios of lars and lamb compared with the formulas of the papers, in f64. A trust ratio is a factor that
// keeps the step of a tensor in proportion to the norm of its weight.
#include "ops/optimizer/update_norms.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <vector>

#include "graph/base/random.h"
#include "ops/optimizer/optimizer.h"
#include "tests/support/optimizers.h"

namespace xrun::ops {
namespace {

constexpr double kRate = 0.1;
constexpr double kDecay = 0.02;

std::vector<float> draw(size_t n, uint64_t key, float size = 1) {
  const RandomStream stream(key, 6);
  std::vector<float> v(n);
  for (size_t i = 0; i < n; ++i) {
    v[i] = stream.uniform(i, -size, size);
  }
  return v;
}

constexpr double kTrust = 0.1;  // trust coefficient of lars
constexpr double kMomentum = 0.9;
constexpr double kBeta1 = 0.9;  // beta1 of lamb
constexpr double kBeta2 = 0.999;
constexpr double kEps = 1e-6;

OptimizerForm form_of(const std::string& name) {
  return *optimizer_form(test::optimizer(name, {{"trust", kTrust}}), detect_isa());
}

double norm_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) {
    sum += value * value;
  }
  return std::sqrt(sum);
}

// An f32 tensor with both optimizer states, updated by the library.
struct Tensor {
  std::vector<float> w;
  std::vector<float> s0 = std::vector<float>(w.size());
  std::vector<float> s1 = std::vector<float>(w.size());

  void step(const OptimizerForm& form, UpdateScalars scalars, const std::vector<float>& g, bool trusts = true,
            Isa isa = detect_isa()) {
    const auto n = static_cast<int64_t>(w.size());
    if (trusts) {
      double norms[2];
      norm_squares(isa, form, 0, scalars, w.data(), g.data(), {s0.data(), s1.data()}, n, norms);
      norms[0] = std::sqrt(norms[0]);
      norms[1] = std::sqrt(norms[1]);
      set_norms(form, norms, scalars);
    }
    update(isa, form, scalars, w.data(), g.data(), {s0.data(), s1.data()}, n);
  }
};

// Computes the update by the formulas of the papers, in f64.
struct Oracle {
  std::vector<double> w;
  std::vector<double> m = std::vector<double>(w.size());
  std::vector<double> v = std::vector<double>(w.size());

  void lars(const std::vector<double>& g) {
    std::vector<double> decayed(g);
    for (size_t i = 0; i < g.size(); ++i) {
      decayed[i] += kDecay * w[i];
    }
    const double weight = norm_of(w);
    const double gradient = norm_of(decayed);
    const double q = weight > 0 && gradient > 0 ? kTrust * weight / (gradient + 1e-8) : 1;
    for (size_t i = 0; i < g.size(); ++i) {
      v[i] = kMomentum * v[i] + q * decayed[i];
      w[i] -= kRate * v[i];
    }
  }

  void lamb(const std::vector<double>& g, int64_t t) {
    std::vector<double> u(g);
    for (size_t i = 0; i < g.size(); ++i) {
      m[i] = kBeta1 * m[i] + (1 - kBeta1) * g[i];
      v[i] = kBeta2 * v[i] + (1 - kBeta2) * g[i] * g[i];
      const double mean = m[i] / (1 - std::pow(kBeta1, static_cast<double>(t)));
      const double square = v[i] / (1 - std::pow(kBeta2, static_cast<double>(t)));
      u[i] = mean / (std::sqrt(square) + kEps) + kDecay * w[i];
    }
    const double weight = norm_of(w);
    const double step = norm_of(u);
    const double ratio = weight > 0 && step > 0 ? weight / step : 1;
    for (size_t i = 0; i < g.size(); ++i) {
      w[i] -= kRate * ratio * u[i];
    }
  }
};

// Returns the clipped gradient: scaled, and then bounded element by element.
std::vector<double> clipped(const std::vector<float>& g, double scale, double limit) {
  std::vector<double> out;
  for (const float x : g) {
    out.push_back(std::fmin(std::fmax(static_cast<double>(x) * scale, -limit), limit));
  }
  return out;
}

TEST(TrustRatio, LarsAndLambFollowTheirFormulasInF64) {
  struct Clip {
    double scale = 1;
    double limit = std::numeric_limits<double>::infinity();
  };
  for (const std::string name : {"lars", "lamb"}) {
    const OptimizerForm form = form_of(name);
    for (const size_t n : {1U, 15U, 16U, 37U, 4096U, 70'001U}) {
      for (const Clip& clip : {Clip{}, Clip{.scale = 0.25}, Clip{.limit = 0.125}}) {
        SCOPED_TRACE(name + " of " + std::to_string(n) + ", " + std::to_string(clip.scale));
        Tensor tensor{draw(n, 1)};
        Oracle oracle{std::vector<double>(tensor.w.begin(), tensor.w.end())};
        for (int64_t step = 0; step < 6; ++step) {
          const std::vector<float> g = draw(n, 100 + static_cast<uint64_t>(step), 0.5F);
          tensor.step(form, update_scalars(form, kRate, kDecay, true, step, clip.scale, clip.limit), g);
          const std::vector<double> g64 = clipped(g, clip.scale, clip.limit);
          name == "lars" ? oracle.lars(g64) : oracle.lamb(g64, step + 1);
        }
        for (size_t i = 0; i < n; ++i) {
          ASSERT_NEAR(static_cast<double>(tensor.w[i]), oracle.w[i], 3e-6) << i;
        }
      }
    }
  }
}

TEST(TrustRatio, IsOneIfANormIsZero) {
  for (const std::string name : {"lars", "lamb"}) {
    SCOPED_TRACE(name);
    const OptimizerForm form = form_of(name);
    // If the weights are zero, the step is taken without a ratio. A tensor without gradient and decay stays unchanged.
    const std::vector<float> g = draw(37, 3);
    Tensor zero{std::vector<float>(37)};
    Oracle oracle{std::vector<double>(37)};
    zero.step(form, update_scalars(form, kRate, kDecay, true, 0), g);
    name == "lars" ? oracle.lars(clipped(g, 1, 10)) : oracle.lamb(clipped(g, 1, 10), 1);
    for (size_t i = 0; i < g.size(); ++i) {
      EXPECT_NEAR(static_cast<double>(zero.w[i]), oracle.w[i], 1e-6) << i;
    }
    Tensor still{draw(37, 4)};
    const std::vector<float> before = still.w;
    still.step(form, update_scalars(form, kRate, 0, true, 0), std::vector<float>(37));
    EXPECT_EQ(still.w, before);
  }
}

TEST(TrustRatio, ANanInAGradientMakesTheWeightsNan) {
  for (const std::string name : {"lars", "lamb"}) {
    std::vector<float> g = draw(37, 3);
    g[20] = std::numeric_limits<float>::quiet_NaN();
    Tensor tensor{draw(37, 4)};
    tensor.step(form_of(name), update_scalars(form_of(name), kRate, kDecay, true, 0), g);
    EXPECT_TRUE(std::isnan(tensor.w[0])) << name << ": the norm of the tensor is NaN";
  }
}

// Tensors of one dimension and class rows are updated without a ratio.
TEST(TrustRatio, RulesWithoutNormsHaveTheBitsOfTheKernels) {
  for (const auto& [name, plain] : {std::pair{"lars", "sgd"}, {"lamb", "adamw"}}) {
    const OptimizerForm other = *optimizer_form(test::optimizer(plain, {{"momentum", kMomentum}, {"eps", kEps}}));
    ASSERT_NE(other.kind, OptimizerKind::kOwn);
    const OptimizerForm form = form_of(name);
    for (const bool decays : {false, true}) {
      Tensor one{draw(37, 1)};
      Tensor two = one;
      for (int64_t step = 0; step < 3; ++step) {
        const std::vector<float> g = draw(37, 50 + static_cast<uint64_t>(step));
        one.step(form, update_scalars(form, kRate, kDecay, decays, step), g, false);
        two.step(other, update_scalars(other, kRate, kDecay, decays, step), g, false);
      }
      EXPECT_EQ(one.w, two.w) << name;
      EXPECT_EQ(one.s0, two.s0) << name;
    }
  }
}

TEST(TrustRatio, BitsDoNotDependOnTheInstructionSet) {
  if (detect_isa() < Isa::kAvx512) {
    GTEST_SKIP() << "this machine has AVX2 alone";
  }
  for (const std::string name : {"lars", "lamb"}) {
    const OptimizerForm form = form_of(name);
    for (const size_t n : {5U, 203U, 5000U}) {
      Tensor narrow{draw(n, 3)};
      Tensor wide = narrow;
      for (int64_t step = 0; step < 4; ++step) {
        const std::vector<float> g = draw(n, 70 + static_cast<uint64_t>(step));
        const UpdateScalars scalars = update_scalars(form, kRate, kDecay, true, step, 0.3);
        narrow.step(form, scalars, g, true, Isa::kAvx2);
        wide.step(form, scalars, g, true, Isa::kAvx512);
      }
      EXPECT_EQ(narrow.w, wide.w) << name << " " << n;
      EXPECT_EQ(narrow.s0, wide.s0) << name << " " << n;
    }
  }
}

TEST(TrustRatio, ComputingNormsChangesNeitherWeightsNorStates) {
  const OptimizerForm form = form_of("lamb");
  const Tensor tensor{draw(37, 1), draw(37, 2), std::vector<float>(37, 0.5F)};
  Tensor after = tensor;
  const std::vector<float> g = draw(37, 3);
  double sums[2];
  norm_squares(detect_isa(), form, 0, update_scalars(form, kRate, kDecay, true, 2), after.w.data(), g.data(),
               {after.s0.data(), after.s1.data()}, 37, sums);
  EXPECT_EQ(sums[0], sum_of_squares(detect_isa(), tensor.w.data(), 37));
  EXPECT_GT(sums[1], 0);
  EXPECT_EQ(after.w, tensor.w);
  EXPECT_EQ(after.s0, tensor.s0);
  EXPECT_EQ(after.s1, tensor.s1);
}

}  // namespace
}  // namespace xrun::ops
