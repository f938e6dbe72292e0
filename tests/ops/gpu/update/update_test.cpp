// Updates of weights, sums of squares, the decision about updates and flags have the bits of the processor.
#include <algorithm>
#include <tuple>

#include "ops/gpu/update/update_decision.h"
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

// ---- the decision

struct DecisionCase {
  float loss_scale = 1;
  double limit = INFINITY;
  bool clips_heads = true;
  bool is_dynamic = false;
};

// Sums of stages, of heads, and of a tensor that the norm does not contain.
std::vector<GradientPart> some_parts() {
  std::vector<GradientPart> parts;
  int64_t first = 0;
  for (const auto& [count, of_head, counts] : std::vector<std::tuple<int64_t, uint32_t, uint32_t>>{
           {3, 0, 1}, {1, 1, 1}, {1500, 0, 1}, {700, 1, 1}, {40, 0, 0}, {1, 0, 1}}) {
    parts.push_back({first, count, of_head, counts});
    first += count;
  }
  return parts;
}

// The decision of the formulas of runtime/device/gradient_sums.cpp; tests/cuda compares with that function itself.
GpuDecision decision_of(const std::vector<double>& sums, const std::vector<GradientPart>& parts,
                        const DecisionCase& with, uint32_t flags) {
  const double scale = with.loss_scale;
  double total = 0;
  bool all_are_finite = true, heads_are_finite = true;
  for (const GradientPart& part : parts) {
    for (int64_t i = part.first; i < part.first + part.count; ++i) {
      const double sum = sums[static_cast<size_t>(i)];
      total += part.counts == 0 ? 0 : sum * (part.of_head != 0 ? 1 : 1 / (scale * scale));
      all_are_finite = all_are_finite && std::isfinite(sum);
      heads_are_finite = heads_are_finite && (part.of_head == 0 || std::isfinite(sum));
    }
  }
  GpuDecision made{.norm = std::sqrt(total), .of_stages = 1 / scale, .finite = all_are_finite};
  if (!all_are_finite) {
    made.skips = with.is_dynamic && scale > 1 && heads_are_finite;
  } else if (made.norm > with.limit) {
    made.of_stages = with.limit / made.norm / scale;
    made.of_heads = with.clips_heads ? with.limit / made.norm : 1;
  }
  made.stage_scale = static_cast<float>(made.of_stages);
  made.head_scale = static_cast<float>(made.of_heads);
  made.held = flags != 0 || !all_are_finite ? 1 : 0;
  return made;
}

void compare_decisions(const std::vector<double>& sums, const std::vector<GradientPart>& parts,
                       const DecisionCase& with, uint32_t flags) {
  const GpuDecision expected = decision_of(sums, parts, with, flags);
  for (const Target target : kTargets) {
    Machine machine(target, ptx::Order::kReversed);
    const uint64_t word = machine.add("flags", std::vector<uint32_t>{flags});
    const uint64_t decision = machine.empty<GpuDecision>("decision", 1);
    machine.run("update_decision", "decide_update", {1, 1, 1}, {256, 1, 1}, machine.add("sums", sums),
                parts.empty() ? 0 : machine.add("parts", parts), static_cast<int64_t>(parts.size()), with.loss_scale,
                with.limit, static_cast<int32_t>(with.clips_heads), static_cast<int32_t>(with.is_dynamic), decision,
                word);
    const GpuDecision made = machine.read<GpuDecision>(decision, 1)[0];
    EXPECT_TRUE(same_bits(std::vector<double>{made.norm, made.of_stages, made.of_heads},
                          std::vector<double>{expected.norm, expected.of_stages, expected.of_heads}));
    EXPECT_EQ(made.stage_scale, expected.stage_scale);
    EXPECT_EQ(made.head_scale, expected.head_scale);
    EXPECT_EQ(made.held, expected.held);
    EXPECT_EQ(made.finite, expected.finite);
    EXPECT_EQ(made.skips, expected.skips);
    const uint32_t bit = expected.finite != 0 ? 0 : expected.skips != 0 ? kFlagSkips : kFlagNotFinite;
    EXPECT_EQ(machine.read<uint32_t>(word, 1)[0], flags | bit);
  }
}

TEST(GpuDecision, HasTheBitsOfTheProcessorsDecision) {
  const std::vector<GradientPart> parts = some_parts();
  const std::vector<float> drawn =
      random_floats(static_cast<size_t>(parts.back().first + parts.back().count), 9, -9, 9);
  std::vector<double> sums;
  std::ranges::transform(drawn, std::back_inserter(sums), [](double x) { return x * x; });
  for (const float loss_scale : {1.0F, 1024.0F}) {
    for (const double limit : {2.0, 1e9, static_cast<double>(INFINITY)}) {
      for (const bool clips_heads : {true, false}) {
        compare_decisions(sums, parts, {loss_scale, limit, clips_heads, false}, 0);
      }
    }
  }
  compare_decisions(sums, parts, {}, kFlagNoRow);
  compare_decisions(sums, {}, {}, 0);  // a step without sums of squares
  compare_decisions(sums, {}, {}, kFlagNotFinite);
}

TEST(GpuDecision, GradientsThatAreNotFiniteSkipTheStepOrEndItWithAnError) {
  const std::vector<GradientPart> parts = some_parts();
  const auto count = static_cast<size_t>(parts.back().first + parts.back().count);
  for (const size_t bad : {size_t{0}, size_t{3}, size_t{1600}, size_t{2210}, count - 1}) {
    std::vector<double> sums(count, 0.5);
    sums[bad] = bad % 2 == 0 ? static_cast<double>(INFINITY) : static_cast<double>(NAN);
    for (const float loss_scale : {1.0F, 8.0F}) {
      for (const bool is_dynamic : {true, false}) {
        compare_decisions(sums, parts, {loss_scale, 0.25, true, is_dynamic}, 0);
      }
    }
  }
}

TEST(GpuUpdate, TheFlagIsSetForNumbersThatAreNotFinite) {
  for (const Target target : kTargets) {
    for (const float bad : {1.0F, INFINITY, -INFINITY, NAN}) {
      auto x = random_floats(kCount, 8);
      x[299] = bad;
      Machine machine(target);
      const uint64_t flags = machine.add("flags", std::vector<uint32_t>{4, 4, 4});
      machine.run_each("finite", "flag_not_finite_f32", kCount, machine.add("x", x), kCount, flags, uint64_t{0});
      machine.run_each("finite", "flag_not_finite_bf16", kCount, machine.add("narrow", rounded(x)), kCount, flags + 4,
                       flags + 8);
      const uint32_t expected = std::isfinite(bad) ? 4 : 5;
      EXPECT_EQ(machine.read<uint32_t>(flags, 3), std::vector<uint32_t>(3, expected)) << bad;
    }
    Machine machine(target);
    const uint64_t y = machine.empty<float>("y", 70);
    machine.run_each("finite", "fill_f32", 70, y, int64_t{70}, 2.5F);
    EXPECT_EQ(machine.read<float>(y, 70), std::vector<float>(70, 2.5F));
  }
}

}  // namespace
}  // namespace xrun::ops::gpu
