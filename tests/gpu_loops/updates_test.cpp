// Kernels of updates: every optimizer of the library has the bits of the CPU's update, weights, states and norms.
#include "tests/gpu_loops/updates.h"

#include "ops/optimizer/update_norms.h"
#include "tests/gpu_loops/gpu_runs.h"

namespace xrun::ops {
namespace {

constexpr int64_t kWeights = 700;
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

// Trains some weights with both kinds of kernels and compares all bits after each step.
void compare_steps(const std::string& optimizer, std::mt19937& random) {
  const CallSpec call = call_of(optimizer);
  const auto rule = read_update_rule(call.args);
  ASSERT_TRUE(rule.ok()) << rule.error().message;
  const OptimizerForm form = *optimizer_form(call, detect_isa());
  // The same rule without a kernel of its own gives the numbers of a step.
  const OwnUpdate own = *OwnUpdate::make(*rule, {});
  std::normal_distribution<float> draw(0, 1);
  const auto some = [&] {
    std::vector<float> values(kWeights);
    std::ranges::generate(values, [&] { return draw(random); });
    return values;
  };
  std::vector<std::vector<float>> kept{some()};  // the weight, then the states
  for (int i = 0; i < rule->states; ++i) {
    kept.emplace_back(static_cast<size_t>(kWeights), static_cast<float>(rule->first[static_cast<size_t>(i)]));
  }
  for (int64_t step = 0; step < 3; ++step) {
    std::vector<float> g = some();
    g[5] = 1e-42F;
    g[6] = 0;
    g[7] = 1e30F;
    const double rate = 0.01 / static_cast<double>(step + 1);
    UpdateScalars scalars = update_scalars(form, rate, 0.01, true, step, 0.5, step == 1 ? 1.0 : 1e38);
    scalars.own = own.scalars(rate, step, 0.01);
    UpdateStates states{};
    for (size_t i = 1; i < kept.size(); ++i) {
      states[i - 1] = kept[i].data();
    }
    std::vector<double> norms(rule->norms.size());
    for (int level = 0; level < own.levels(); ++level) {
      const GpuLoop sums = norm_kernel(*rule, level, kPiece);
      std::vector<Bits> inputs{bits_of_all(kept[0]), bits_of_all(g)};
      for (size_t i = 1; i < kept.size(); ++i) {
        inputs.push_back(bits_of_all(kept[i]));
      }
      std::ranges::move(numbers_of(*rule, scalars), std::back_inserter(inputs));
      const int64_t pieces = (kWeights + kPiece - 1) / kPiece;
      const std::vector<size_t> sizes(sums.outputs.size(), static_cast<size_t>(pieces) * sizeof(double));
      const auto run = run_kernel(sums, inputs, sizes, kWeights, {.order = ptx::Order::kReversed});
      ASSERT_TRUE(run.has_value());
      std::vector<double> totals(norms.size());
      for (int64_t piece = 0; piece < pieces; ++piece) {
        const ComputeModes modes;
        std::vector<double> wanted(norms.size());
        const int64_t begin = piece * kPiece;
        UpdateStates moved = states;
        for (float*& state : moved) {
          state = state == nullptr ? nullptr : state + begin;
        }
        norm_squares(detect_isa(), form, level, scalars, kept[0].data() + begin, g.data() + begin, moved,
                     std::min(kPiece, kWeights - begin), wanted);
        size_t result = 0;
        const std::vector<int> levels = norm_levels(*rule);
        for (size_t i = 0; i < norms.size(); ++i) {
          if (levels[i] == level) {
            double made = 0;
            std::memcpy(&made, run->results[result++].data() + static_cast<size_t>(piece) * sizeof made, sizeof made);
            EXPECT_EQ(std::bit_cast<uint64_t>(made), std::bit_cast<uint64_t>(wanted[i])) << optimizer << " norm " << i;
            totals[i] += wanted[i];
            norms[i] = std::sqrt(totals[i]);
          }
        }
      }
      own.set_norms(norms, scalars.own);
    }

    std::vector<Bits> inputs{bits_of_all(kept[0]), bits_of_all(g)};
    std::vector<int> in_place{0};
    for (size_t i = 1; i < kept.size(); ++i) {
      in_place.push_back(static_cast<int>(inputs.size()));
      inputs.push_back(bits_of_all(kept[i]));
    }
    std::ranges::move(numbers_of(*rule, scalars), std::back_inserter(inputs));
    const std::vector<size_t> sizes(kept.size(), static_cast<size_t>(kWeights) * sizeof(float));
    const auto run = run_kernel(update_kernel(*rule), inputs, sizes, kWeights, {.in_place = in_place});
    ASSERT_TRUE(run.has_value());
    {
      const ComputeModes modes;
      update(detect_isa(), form, scalars, kept[0].data(), g.data(), states, kWeights);
    }
    for (size_t i = 0; i < kept.size(); ++i) {
      ASSERT_EQ(first_difference<float>(run->results[i], bits_of_all(kept[i])), -1)
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
