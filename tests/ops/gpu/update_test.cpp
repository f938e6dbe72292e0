// Updates of weights, sums of squares, clipping and flags have the bits of the processor.
#include <algorithm>

#include "ops/optimizer/optimizer.h"
#include "tests/ops/gpu/kernel_runner.h"

namespace xrun::ops::gpu {
namespace {

constexpr int64_t kCount = 333;

KnownScalars scalars_of(bool nothing_special) {
  return {.rate = 0.01F,
          .decay = 0.05F,
          .momentum = 0.9F,
          .keep1 = 0.9F,
          .take1 = 0.1F,
          .keep2 = 0.999F,
          .take2 = 0.001F,
          .correct1 = 3.7F,
          .correct2 = 333.0F,
          .eps = 1e-8F,
          .grad_scale = nothing_special ? 1.0F : 0.37F,
          .grad_limit = nothing_special ? INFINITY : 0.5F};
}

struct Rule {
  std::string kernel;
  OptimizerForm form;
};

std::vector<Rule> rules() {
  return {{"update_sgd", {.kind = OptimizerKind::kSgd, .states = 0}},
          {"update_momentum", {.kind = OptimizerKind::kSgd, .momentum = 0.9, .states = 1}},
          {"update_nesterov", {.kind = OptimizerKind::kSgd, .momentum = 0.9, .nesterov = true, .states = 1}},
          {"update_adamw", {.kind = OptimizerKind::kAdamw, .states = 2}}};
}

TEST(GpuUpdate, UpdatesHaveTheBitsOfTheProcessor) {
  for (const Rule& rule : rules()) {
    for (const bool nothing_special : {true, false}) {
      auto w = random_floats(kCount, 1);
      auto g = random_floats(kCount, 2);
      auto s0 = random_floats(kCount, 3);
      auto s1 = random_floats(kCount, 4);
      std::ranges::transform(s1, s1.begin(), [](float v) { return std::abs(v); });
      g[7] = NAN;
      const UpdateScalars scalars{scalars_of(nothing_special)};
      const std::vector<KnownScalars> known{scalars};
      for (const Target target : kTargets) {
        Machine machine(target);
        const uint64_t u = machine.add("scalars", known), weights = machine.add("w", w), grads = machine.add("g", g);
        const uint64_t first = machine.add("s0", s0), second = machine.add("s1", s1);
        if (rule.form.states == 0) {
          machine.run_each("update", rule.kernel, kCount, u, weights, grads, kCount);
        } else if (rule.form.states == 1) {
          machine.run_each("update", rule.kernel, kCount, u, weights, grads, first, kCount);
        } else {
          machine.run_each("update", rule.kernel, kCount, u, weights, grads, first, second, kCount);
        }
        auto cpu_w = w, cpu_s0 = s0, cpu_s1 = s1;
        {
          const FlushMode flush;
          update(Isa::kAvx2, rule.form, scalars, cpu_w.data(), g.data(), {cpu_s0.data(), cpu_s1.data()}, kCount);
        }
        EXPECT_TRUE(same_bits(machine.read<float>(weights, kCount), cpu_w)) << rule.kernel;
        EXPECT_TRUE(same_bits(machine.read<float>(first, kCount), cpu_s0)) << rule.kernel;
        EXPECT_TRUE(same_bits(machine.read<float>(second, kCount), cpu_s1)) << rule.kernel;
      }
    }
  }
}

TEST(GpuUpdate, TheRunningMeanFollowsTheWeights) {
  const auto w = random_floats(kCount, 5);
  auto mean = random_floats(kCount, 6);
  const OptimizerForm form{.kind = OptimizerKind::kSgd, .states = 0, .ema = 0.99};
  for (const Target target : kTargets) {
    Machine machine(target);
    const uint64_t kept = machine.add("mean", mean);
    machine.run_each("update", "update_mean", kCount, machine.add("w", w), kept, kCount,
                     static_cast<float>(1 - form.ema));
    // A rate of 0 leaves the weights as they are.
    auto cpu_w = w, cpu_mean = mean;
    const std::vector<float> g(kCount, 0.0F);
    update(Isa::kAvx2, form, {}, cpu_w.data(), g.data(), {cpu_mean.data()}, kCount);
    EXPECT_TRUE(same_bits(machine.read<float>(kept, kCount), cpu_mean));
  }
}

TEST(GpuUpdate, SumsOfSquaresHaveTheBitsOfTheProcessor) {
  constexpr int64_t kPart = 96, kParts = blocks_for(kCount, kPart);
  const auto g = random_floats(kCount, 7, -30, 30);
  std::vector<double> expected;
  for (int64_t begin = 0; begin < kCount; begin += kPart) {
    expected.push_back(sum_of_squares(Isa::kAvx2, g.data() + begin, std::min(kPart, kCount - begin)));
  }
  for (const Target target : kTargets) {
    Machine machine(target);
    const uint64_t sums = machine.empty<double>("sums", kParts);
    machine.run_each("square_sums", "square_sums_f32", kParts * 16, machine.add("g", g), sums, kCount, kPart);
    EXPECT_TRUE(same_bits(machine.read<double>(sums, kParts), expected));
  }
}

TEST(GpuUpdate, GradientsAreClippedByTheirNorm) {
  const std::vector<double> sums{9.0, 16.0 * 4, 1e-3, 7.25};
  const double loss_scale = 2;
  double total = 0;
  for (const double sum : sums) {
    total += sum * (1 / (loss_scale * loss_scale));
  }
  for (const double limit : {2.0, 100.0}) {
    const double norm = std::sqrt(total);
    const auto expected = static_cast<float>(norm > limit ? limit / norm / loss_scale : 1 / loss_scale);
    for (const Target target : kTargets) {
      Machine machine(target);
      const uint64_t flags = machine.add("flags", std::vector<uint32_t>{0});
      const uint64_t scale = machine.add("scale", std::vector<float>{5});
      machine.run("square_sums", "clip_by_norm", {1, 1, 1}, {1, 1, 1}, machine.add("sums", sums),
                  static_cast<int64_t>(sums.size()), loss_scale, limit, scale, flags);
      EXPECT_EQ(machine.read<float>(scale, 1)[0], expected);
      EXPECT_EQ(machine.read<uint32_t>(flags, 1)[0], 0u);
      auto damaged = sums;
      damaged[2] = INFINITY;
      machine.run("square_sums", "clip_by_norm", {1, 1, 1}, {1, 1, 1}, machine.add("damaged", damaged),
                  static_cast<int64_t>(sums.size()), loss_scale, limit, scale, flags);
      EXPECT_EQ(machine.read<uint32_t>(flags, 1)[0], 1u);
      EXPECT_EQ(machine.read<float>(scale, 1)[0], expected) << "the scale does not change";
    }
  }
}

TEST(GpuUpdate, TheFlagIsSetForNumbersThatAreNotFinite) {
  for (const Target target : kTargets) {
    for (const float bad : {1.0F, INFINITY, -INFINITY, NAN}) {
      auto x = random_floats(kCount, 8);
      x[299] = bad;
      Machine machine(target);
      const uint64_t flags = machine.add("flags", std::vector<uint32_t>{4, 4});
      machine.run_each("finite", "flag_not_finite_f32", kCount, machine.add("x", x), kCount, flags);
      machine.run_each("finite", "flag_not_finite_bf16", kCount, machine.add("narrow", rounded(x)), kCount, flags + 4);
      const uint32_t expected = std::isfinite(bad) ? 4 : 5;
      EXPECT_EQ(machine.read<uint32_t>(flags, 2), std::vector<uint32_t>(2, expected)) << bad;
    }
    Machine machine(target);
    const uint64_t y = machine.empty<float>("y", 70);
    machine.run_each("finite", "fill_f32", 70, y, int64_t{70}, 2.5F);
    EXPECT_EQ(machine.read<float>(y, 70), std::vector<float>(70, 2.5F));
  }
}

}  // namespace
}  // namespace xrun::ops::gpu
