// The kernels of every optimizer of the library have the bits of the CPU's update: weights, states and norms.
#include "tests/gpu_loops/updates.h"

#include "ops/optimizer/update_norms.h"
#include "tests/gpu_loops/gpu_runs.h"

namespace xrun::ops {
namespace {

constexpr int64_t kWeights = 700;
constexpr double kEma = 0.9;
constexpr int64_t kPiece = 256;  // elements of a partial norm; the last piece is shorter

// The numbers of a step as operands of a kernel, one f32 each.
std::vector<Bits> numbers_of(const UpdateRule& rule, const UpdateScalars& scalars) {
  std::vector<Bits> numbers;
  for (int i = 0; i < rule.inputs() - 2 - rule.states; ++i) {
    numbers.push_back(bits_of_all(std::vector<float>{scalars.own[static_cast<size_t>(i)]}));
  }
  numbers.push_back(bits_of_all(std::vector<float>{scalars.grad_scale}));
  numbers.push_back(bits_of_all(std::vector<float>{scalars.grad_limit}));
  return numbers;
}

class GpuUpdates : public GpuLoops {};

// An optimizer with its weights, in the memory of the CPU.
struct Trained {
  std::string name;
  UpdateRule rule;
  OptimizerForm form;
  OwnUpdate own;                         // the rule as an expression, which computes the numbers of a step
  std::vector<std::vector<float>> kept;  // the weight, the states, and the running mean of the weight

  UpdateStates states(int64_t begin = 0) {
    UpdateStates at{};
    for (size_t i = 1; i < kept.size(); ++i) {
      at[i - 1] = kept[i].data() + begin;
    }
    return at;
  }
  // The operands of both kernels, without the mean.
  std::vector<Bits> operands(const std::vector<float>& g, const UpdateScalars& scalars) const {
    std::vector<Bits> inputs{bits_of_all(kept[0]), bits_of_all(g)};
    for (size_t i = 1; i + 1 < kept.size(); ++i) {
      inputs.push_back(bits_of_all(kept[i]));
    }
    std::ranges::move(numbers_of(rule, scalars), std::back_inserter(inputs));
    return inputs;
  }
};

// Compares the partial norms of one level, and adds those of the CPU to `totals`.
void compare_norms(Trained& some, int level, const std::vector<float>& g, const UpdateScalars& scalars,
                   std::vector<double>& totals) {
  const GpuLoop sums = norm_kernel(some.rule, level, kPiece);
  const int64_t pieces = (kWeights + kPiece - 1) / kPiece;
  const std::vector<size_t> sizes(sums.outputs.size(), static_cast<size_t>(pieces) * sizeof(double));
  const auto run = run_kernel(sums, some.operands(g, scalars), sizes, kWeights, {.order = ptx::Order::kReversed});
  ASSERT_TRUE(run.has_value());
  const std::vector<int> levels = norm_levels(some.rule);
  for (int64_t piece = 0; piece < pieces; ++piece) {
    std::vector<double> wanted(totals.size());
    const int64_t begin = piece * kPiece;
    {
      const ComputeModes modes;
      norm_squares(detect_isa(), some.form, level, scalars, some.kept[0].data() + begin, g.data() + begin,
                   some.states(begin), std::min(kPiece, kWeights - begin), wanted);
    }
    size_t result = 0;
    for (size_t i = 0; i < totals.size(); ++i) {
      if (levels[i] == level) {
        double made = 0;
        std::memcpy(&made, run->results[result++].data() + static_cast<size_t>(piece) * sizeof made, sizeof made);
        EXPECT_EQ(std::bit_cast<uint64_t>(made), std::bit_cast<uint64_t>(wanted[i])) << some.name << " norm " << i;
        totals[i] += wanted[i];
      }
    }
  }
}

// Trains some weights with both kinds of kernels and compares all bits after each step.
void compare_steps(const std::string& optimizer, std::mt19937& random) {
  const CallSpec call = call_of(optimizer);
  const auto rule = read_update_rule(call.args);
  ASSERT_TRUE(rule.ok()) << rule.error().message;
  std::normal_distribution<float> draw(0, 1);
  const auto drawn = [&] {
    std::vector<float> values(kWeights);
    std::ranges::generate(values, [&] { return draw(random); });
    return values;
  };
  Trained some{optimizer, *rule, *optimizer_form(call, detect_isa(), kEma), *OwnUpdate::make(*rule, {}), {drawn()}};
  for (int i = 0; i < rule->states; ++i) {
    some.kept.emplace_back(static_cast<size_t>(kWeights), static_cast<float>(rule->first[static_cast<size_t>(i)]));
  }
  some.kept.push_back(some.kept[0]);
  for (int64_t step = 0; step < 3; ++step) {
    std::vector<float> g = drawn();
    g[5] = 1e-42F;
    g[6] = 0;
    g[7] = 1e30F;
    const double rate = 0.01 / static_cast<double>(step + 1);
    UpdateScalars scalars = update_scalars(some.form, rate, 0.01, true, step, 0.5, step == 1 ? 1.0 : 1e38);
    scalars.own = some.own.scalars(rate, step, 0.01);
    std::vector<double> totals(rule->norms.size());
    for (int level = 0; level < some.own.levels(); ++level) {
      compare_norms(some, level, g, scalars, totals);
      std::vector<double> norms(totals.size());
      std::ranges::transform(totals, norms.begin(), [](double total) { return std::sqrt(total); });
      some.own.set_norms(norms, scalars.own);
    }
    std::vector<int> in_place{0};
    for (int i = 0; i < rule->states; ++i) {
      in_place.push_back(2 + i);
    }
    std::vector<Bits> inputs = some.operands(g, scalars);
    inputs.push_back(bits_of_all(std::vector<float>{0}));
    in_place.push_back(static_cast<int>(inputs.size()));
    inputs.push_back(bits_of_all(some.kept.back()));
    inputs.push_back(bits_of_all(std::vector<float>{static_cast<float>(1 - kEma)}));
    const std::vector<size_t> sizes(some.kept.size(), static_cast<size_t>(kWeights) * sizeof(float));
    const auto run = run_kernel(update_kernel(*rule, true), inputs, sizes, kWeights, {.in_place = in_place});
    ASSERT_TRUE(run.has_value());
    {
      const ComputeModes modes;
      update(detect_isa(), some.form, scalars, some.kept[0].data(), g.data(), some.states(), kWeights);
    }
    for (size_t i = 0; i < some.kept.size(); ++i) {
      ASSERT_EQ(first_difference<float>(run->results[i], bits_of_all(some.kept[i])), -1)
          << optimizer << " step " << step << " result " << i;
    }
  }
}

TEST_F(GpuUpdates, HaveTheBitsOfTheCpuForEveryOptimizer) {
  std::mt19937 random(11);
  const std::vector<std::string> calls = optimizer_calls();
  ASSERT_GE(calls.size(), 12U);
  for (const std::string& call : calls) {
    compare_steps(call, random);
    if (HasFatalFailure()) {
      return;
    }
  }
}

}  // namespace
}  // namespace xrun::ops
