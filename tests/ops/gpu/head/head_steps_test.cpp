// Heads on GPUs: every margin, format and update rule against the oracle in f64 and the processor.
#include "ops/head/margin_arguments.h"
#include "tests/ops/gpu/head/head_runner.h"

namespace xrun::ops::gpu {
namespace {

// Twelve rows and 140 classes in three class blocks, of which the last has 12 classes.
constexpr int64_t kRows = 12, kClasses = 140, kDim = 20;

ProblemSpec spec_of(bool bf16, const MarginForm& form, uint64_t seed) {
  return {.classes = kClasses,
          .dim = kDim,
          .rows = kRows,
          .bf16 = bf16,
          .cosine = form.of_cosines(),
          .bias = !form.of_cosines(),
          .margin = form,
          .seed = seed};
}

std::vector<double> widened(const std::vector<float>& values) { return {values.begin(), values.end()}; }

// Compares a step with the oracle row by row, and in norm with the step of the processor.
void expect_right(const test::HeadProblem& problem, const GpuStep& step, bool extremes) {
  const StepResult got = run_on_gpu(problem, step);
  const StepPlan& plan = step.plan;
  expect_result(problem, plan, got);
  const StepResult cpu = run_step(problem, plan);
  const double bound = problem.bf16 ? 1e-2 : problem.margin.scale > 16 ? 4e-5 : 1e-5;
  EXPECT_LE(test::relative_error(got.scores, widened(cpu.scores)), bound);
  EXPECT_EQ(got.best, cpu.best);
  EXPECT_EQ(got.hit1, cpu.hit1);
  EXPECT_EQ(got.hit5, cpu.hit5);
  if (!extremes) {  // near unit cosines a slope enlarges the rounding of the cosine without limit
    EXPECT_LE(test::relative_error(got.loss, widened(cpu.loss)), bound);
    EXPECT_LE(test::relative_error(got.dx, widened(cpu.dx)), bound);
    EXPECT_LE(test::relative_error(got.dw, widened(cpu.dw)), bound);
    EXPECT_NEAR(got.squares, cpu.squares, 2.1 * bound * cpu.squares);
  }
}

struct Case {
  const char* name;
  MarginForm form;
  bool extremes = false;
  double filter = 1;
};

std::vector<Case> cases() {
  MarginForm easy = margin(16, 1, 0.5, 0), smooth = margin(1, 1, 0, 0), smooth_cosine = margin(16, 1, 0, 0.2);
  easy.easy = true;
  smooth.smoothing = smooth_cosine.smoothing = 0.1;
  return {{"softmax", margin(1, 1, 0, 0)},
          {"smoothing", smooth},
          {"cosface", margin(24, 1, 0, 0.4)},
          {"cosface with smoothing", smooth_cosine},
          {"arcface", margin(16, 1, 0.5, 0)},
          {"arcface at unit cosines", margin(64, 1, 0.5, 0), true},
          {"easy arcface", easy, true},
          {"sphereface", margin(16, 1.35, 0, 0), true},
          {"sphereface of two", margin(16, 2, 0, 0)},
          {"combined", margin(64, 1, 0.3, 0.2)},
          {"straight", margin(16, 1, 0.5, 0, MarginGrad::kStraight), true},
          {"threshold", margin(30, 1.5, 0.4, 0.1, MarginGrad::kThreshold), true},
          {"exact", margin(16, 1.2, 0.3, 0.1, MarginGrad::kExact)},
          {"filter", margin(16, 1, 0.5, 0), false, 0.3}};
}

TEST(GpuHead, EveryMarginMatchesTheOracleAndTheProcessor) {
  uint64_t seed = 40;
  for (const Case& of : cases()) {
    // Steep margins read features, which are also tested in bf16.
    for (const auto& [bf16, narrow] : {std::pair(false, false), std::pair(true, false), std::pair(true, true)}) {
      if (narrow && !of.extremes) {
        continue;
      }
      SCOPED_TRACE(std::string(of.name) + (bf16 ? " in bf16" : " in f32") + (narrow ? ", narrow features" : ""));
      ProblemSpec spec = spec_of(bf16, of.form, ++seed);
      spec.extremes = of.extremes;
      test::HeadProblem problem = make_problem(spec);
      problem.labels[3] = problem.labels[4] = 70;  // two rows with one class
      if (!of.extremes) {
        problem.labels[5] = -1;
      }
      if (of.filter < 1) {
        problem.margin.filter = filter_near(problem, of.filter);
        EXPECT_GE(filtered(problem), 2);
      }
      problem.factors = some_factors(kRows);
      for (float& x : problem.features) {
        x = narrow ? to_float(to_bf16(x)) : x;
      }
      const GpuStep step{.plan = {.shards = 2, .pass_rows = kRows, .norm_rows = 6, .narrow_features = narrow},
                         .work = {.classes = 128, .places = 32},
                         .target = kTargets[seed % 2]};
      expect_right(problem, step, of.extremes);
    }
  }
}

// The oracle has no such margins.
TEST(GpuHead, AMarginOfItsOwnMatchesTheProcessor) {
  const auto own = own_margin({{"f", std::string("cos(acos(min(x0, 0.999)) + 0.3) - 0.1")}, {"scale", 16.0}});
  ASSERT_TRUE(own.ok()) << own.error().message;
  for (const bool bf16 : {false, true}) {
    const test::HeadProblem problem = make_problem(spec_of(bf16, *own, 60));
    const GpuStep step{.plan = {.shards = 2, .pass_rows = kRows, .norm_rows = 6}};
    const StepResult got = run_on_gpu(problem, step), cpu = run_step(problem, step.plan);
    const double bound = bf16 ? 1e-2 : 1e-5;
    EXPECT_LE(test::relative_error(got.loss, widened(cpu.loss)), bound);
    EXPECT_LE(test::relative_error(got.dx, widened(cpu.dx)), bound);
    EXPECT_LE(test::relative_error(got.dw, widened(cpu.dw)), bound);
    EXPECT_LE(test::relative_error(got.weight, widened(cpu.weight)), bound);
  }
}

struct Rule {
  const char* name;
  OptimizerForm form;
};

TEST(GpuHead, EveryUpdateRuleAndFormatOfRowsMatchesTheOracle) {
  const Rule rules[] = {{"sgd", {.kind = OptimizerKind::kSgd, .weight_decay = 0.01, .states = 0}},
                        {"momentum", {.kind = OptimizerKind::kSgd, .momentum = 0.9, .weight_decay = 0.01, .states = 1}},
                        {"adamw", {.kind = OptimizerKind::kAdamw, .weight_decay = 0.01, .states = 2}}};
  int number = 0;
  for (const Rule& rule : rules) {
    for (const auto& [weights, states] :
         {std::pair(RowFormat::kBf16, RowFormat::kBf16), std::pair(RowFormat::kBf16, RowFormat::kF32),
          std::pair(RowFormat::kF32, RowFormat::kBf16)}) {
      const bool bf16 = ++number % 2 == 0;
      const auto form = number % 3 == 0 ? margin(1, 1, 0, 0) : margin(16, 1, 0.5, 0);
      SCOPED_TRACE(std::string(rule.name) + ", rows " + std::string(name_of(weights)) + ", states " +
                   std::string(name_of(states)) + (bf16 ? ", bf16" : ", f32"));
      test::HeadProblem problem = make_problem(spec_of(bf16, form, 80 + static_cast<uint64_t>(number)));
      problem.weight = NarrowRows(weights, problem.weight, kDim).values();
      for (float& x : problem.features) {
        x = bf16 ? to_float(to_bf16(x)) : x;
      }
      const GpuStep step{.plan = {.shards = 1,
                                  .pass_rows = kRows,
                                  .norm_rows = number % 3 == 1 ? 6 : 12,
                                  .narrow_features = bf16,
                                  .weights = weights,
                                  .states = states,
                                  .form = rule.form},
                         .target = kTargets[number / 2 % 2]};
      const StepResult got = run_on_gpu(problem, step);
      expect_result(problem, step.plan, got);
      const StepResult cpu = run_step(problem, step.plan);
      // Both round with the same draws, so nearly all numbers are equal although gradients differ by rounding errors.
      size_t different = 0;
      for (size_t i = 0; i < got.weight.size(); ++i) {
        different += got.weight[i] != cpu.weight[i] ? 1 : 0;
      }
      if (weights == RowFormat::kBf16 && !bf16) {
        EXPECT_LE(different, got.weight.size() / 50);
      }
    }
  }
}

// Rows, states and the running mean after an update of given gradients.
struct UpdatedRows {
  std::vector<float> weight, state0, state1, mean;
};

constexpr int64_t kFirstClass = 64, kUpdated = 70;
constexpr float kTake = 0.01F;

// Updates class rows on the processor, which rounds them like ops/head/class_rows.cpp does.
UpdatedRows update_on_cpu(const OptimizerForm& form, RowFormat weights, RowFormat states, const UpdateScalars& scalars,
                          const std::vector<float>& g, UpdatedRows rows) {
  const FlushMode flush;
  const auto kept = static_cast<uint64_t>(form.states);
  for (int64_t c = 0; c < kUpdated; ++c) {
    const auto at = [&](std::vector<float>& values) { return values.data() + c * kDim; };
    UpdateStates addresses{at(rows.state0), at(rows.state1)};
    addresses[kept] = at(rows.mean);
    OptimizerForm with_mean = form;
    with_mean.ema = 1 - static_cast<double>(kTake);
    update(Isa::kAvx2, with_mean, scalars, at(rows.weight), g.data() + c * kDim, addresses, kDim);
    const auto round = [&](RowFormat format, std::vector<float>& values, uint64_t what) {
      std::vector<std::byte> bytes(static_cast<size_t>(kDim * element_bytes(format)));
      const RandomStream draws(5, 3, static_cast<uint64_t>(kFirstClass + c), what);
      store_row(format, at(values), kDim, draws, bytes.data());
      load_row(format, bytes.data(), 1, kDim, at(values));
    };
    round(weights, rows.weight, 0x636c617373);
    std::vector<float>* const all[] = {&rows.state0, &rows.state1, &rows.mean};
    for (uint64_t i = 0; i < kept; ++i) {
      round(states, *all[i], 0x636c617374 + i);
    }
    round(states, rows.mean, 0x636c617374 + kept);
  }
  return rows;
}

TEST(GpuHead, UpdatesOfClassRowsHaveTheBitsOfTheProcessor) {
  const OptimizerForm rules[] = {
      {.kind = OptimizerKind::kSgd, .weight_decay = 0.01, .states = 0},
      {.kind = OptimizerKind::kSgd, .momentum = 0.9, .weight_decay = 0.01, .states = 1},
      {.kind = OptimizerKind::kSgd, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01, .states = 1},
      {.kind = OptimizerKind::kAdamw, .weight_decay = 0.01, .states = 2}};
  constexpr int64_t kStride = 32;
  for (uint32_t rule = 0; rule < 4; ++rule) {
    for (const auto& [weights, states] :
         {std::pair(RowFormat::kF32, RowFormat::kF32), std::pair(RowFormat::kF32, RowFormat::kBf16),
          std::pair(RowFormat::kBf16, RowFormat::kF32), std::pair(RowFormat::kBf16, RowFormat::kBf16)}) {
      SCOPED_TRACE("rule " + std::to_string(rule) + ", rows " + std::string(name_of(weights)) + ", states " +
                   std::string(name_of(states)));
      const OptimizerForm& form = rules[rule];
      const auto numbers = [&](RowFormat format, uint64_t seed) {
        return NarrowRows(format, random_floats(kUpdated * kDim, seed), kDim).values();
      };
      UpdatedRows before{numbers(weights, 1), numbers(states, 2), numbers(states, 3), numbers(states, 4)};
      std::ranges::transform(before.state1, before.state1.begin(), [](float x) { return std::abs(x); });
      auto g = random_floats(kUpdated * kDim, 5);
      g[33] = NAN;
      std::vector<float> padded(kUpdated * kStride);
      for (int64_t c = 0; c < kUpdated; ++c) {
        std::copy_n(g.begin() + c * kDim, kDim, padded.begin() + c * kStride);
      }
      const UpdateScalars scalars = update_scalars(form, 0.1, 0.01, true, 4, 0.5, 1.5);
      const UpdatedRows want = update_on_cpu(form, weights, states, scalars, g, before);
      Machine machine(kTargets[rule % 2]);
      const auto add = [&](RowFormat format, const char* name, const std::vector<float>& values) {
        return format == RowFormat::kF32 ? machine.add(name, values) : machine.add(name, rounded(values));
      };
      const auto read = [&](RowFormat format, uint64_t address) {
        if (format == RowFormat::kF32) {
          return machine.read<float>(address, kUpdated * kDim);
        }
        std::vector<float> values;
        for (const uint16_t bits : machine.read<uint16_t>(address, kUpdated * kDim)) {
          values.push_back(to_float(Bf16{bits}));
        }
        return values;
      };
      const uint64_t w = add(weights, "weight", before.weight), m = add(states, "mean", before.mean);
      const uint64_t s0 = add(states, "state 0", before.state0), s1 = add(states, "state 1", before.state1);
      const std::string kernel = "head_update_" + std::string(name_of(weights)) + "_" + std::string(name_of(states));
      machine.run_each("head_rows", kernel, 32 * kUpdated, rule,
                       machine.add("scalars", std::vector<KnownScalars>{scalars}), uint64_t{0},
                       machine.add("flags", std::vector<uint32_t>(1)), w, machine.add("g", padded),
                       form.states > 0 ? s0 : 0, form.states > 1 ? s1 : 0, m, uint64_t{0}, kUpdated, kDim, kStride,
                       kFirstClass, uint64_t{5}, uint64_t{3}, kTake);
      EXPECT_TRUE(same_bits(read(weights, w), want.weight));
      EXPECT_TRUE(same_bits(read(states, s0), want.state0));
      EXPECT_TRUE(same_bits(read(states, s1), want.state1));
      EXPECT_TRUE(same_bits(read(states, m), want.mean));
    }
  }
}

TEST(GpuHead, EqualLogitsRankByClassAndNanIsCarried) {
  for (const bool damaged : {false, true}) {
    test::HeadProblem problem = make_problem(spec_of(false, margin(1, 1, 0, 0), 9));
    for (const int64_t c : {3, 70, 71, 100, 139}) {  // five classes with the largest logit of row 0
      for (int64_t d = 0; d < kDim; ++d) {
        problem.weight[static_cast<size_t>(c * kDim + d)] = problem.features[static_cast<size_t>(d)];
      }
      problem.bias[static_cast<size_t>(c)] = 3;
    }
    problem.labels[0] = 100;
    problem.labels[1] = kClasses + 5;
    if (damaged) {
      problem.bias[122] = NAN;
    }
    const GpuStep step{.plan = {.shards = 2, .pass_rows = kRows, .norm_rows = 6}};
    const StepResult got = run_on_gpu(problem, step), cpu = run_step(problem, step.plan);
    EXPECT_EQ(got.best, cpu.best);
    EXPECT_EQ(got.hit1, cpu.hit1);
    EXPECT_EQ(got.hit5, cpu.hit5);
    for (size_t row = 0; row < got.loss.size(); ++row) {
      EXPECT_EQ(std::isnan(got.loss[row]), damaged) << row;
    }
    EXPECT_EQ(std::vector<int32_t>(got.best.begin(), got.best.begin() + kTop),
              (std::vector<int32_t>{3, 70, 71, 100, 139}));
    EXPECT_EQ(got.hit5[0], damaged ? 0 : 1);
    EXPECT_EQ(got.hit1[0], 0);
  }
}

}  // namespace
}  // namespace xrun::ops::gpu
