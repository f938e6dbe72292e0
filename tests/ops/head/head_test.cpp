#include "ops/head/head.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <optional>
#include <string>

#include "ops/head/margin.h"
#include "tests/ops/head/head_check.h"

namespace xrun::ops {
namespace {

std::vector<Isa> isas(bool bf16) {
  std::vector<Isa> all{Isa::kAvx2, Isa::kAvx512};
  if (bf16) {
    all.push_back(Isa::kAvx512Bf16);
    all.push_back(Isa::kAmx);
  }
  return all;
}

std::string text_of(const test::HeadProblem& p, const StepPlan& plan) {
  return "classes " + std::to_string(p.classes) + " dim " + std::to_string(p.dim) + " rows " + std::to_string(p.rows) +
         " bf16 " + std::to_string(p.bf16) + " cosine " + std::to_string(p.form.cosine) + " scale " +
         std::to_string(p.margin.scale) + " m1 " + std::to_string(p.margin.m1) + " m2 " + std::to_string(p.margin.m2) +
         " m3 " + std::to_string(p.margin.m3) + " grad " + std::to_string(static_cast<int>(p.margin.grad)) +
         " smoothing " + std::to_string(p.margin.smoothing) + " shards " + std::to_string(plan.shards) + " h " +
         std::to_string(plan.pass_rows) + " g " + std::to_string(plan.norm_rows) + " isa " +
         std::string(name_of(plan.isa));
}

// Compares loss, dX, dW and db with the oracle, and the accuracy with a sort of the oracle's logits.
void expect_right(test::HeadProblem problem, const StepPlan& plan) {
  SCOPED_TRACE(text_of(problem, plan));
  const StepResult got = run_step(problem, plan);
  problem.target_logits = got.target;
  const test::HeadAnswer want = solve(problem);
  const double bound = problem.bf16 ? 1e-2 : problem.margin.scale > 16 ? 4e-5 : 1e-5;
  EXPECT_LE(test::relative_error(got.loss, want.loss), bound);
  EXPECT_LE(test::relative_error(got.dx, want.dx), bound);
  if (plan.pass_rows == problem.rows) {
    EXPECT_LE(test::relative_error(got.dw, want.dw), bound);
    double squares = 0;
    for (const double g : want.dw) {
      squares += g * g;
    }
    EXPECT_NEAR(got.squares, squares, 2.1 * bound * squares);
    if (problem.form.bias) {
      EXPECT_LE(test::relative_error(got.db, want.db), bound);
    }
  }
  // v = 0.9 · 0.5 + g + 0.01 · w; w -= 0.1 · v
  std::vector<double> moved;
  std::vector<float> got_moved;
  for (size_t i = 0; i < problem.weight.size(); ++i) {
    const double w = problem.weight[i];
    moved.push_back(0.1 * (0.45 + want.dw[i] + 0.01 * w));
    got_moved.push_back(static_cast<float>(w - static_cast<double>(got.weight[i])));
  }
  EXPECT_LE(test::relative_error(got_moved, moved), bound);
  for (int64_t row = 0; row < problem.rows; ++row) {
    const double* logits = want.logits.data() + row * problem.classes;
    const auto label = static_cast<int64_t>(problem.labels[static_cast<size_t>(row)]);
    int64_t ahead = 0;
    bool close = false;
    for (int64_t c = 0; c < problem.classes; ++c) {
      ahead += logits[c] > logits[label];
      close = close || (c != label && std::abs(logits[c] - logits[label]) < (problem.bf16 ? 1e-4 : 1e-5));
    }
    if (!close) {
      EXPECT_EQ(got.hit1[static_cast<size_t>(row)], ahead < 1 ? 1 : 0) << row;
      EXPECT_EQ(got.hit5[static_cast<size_t>(row)], ahead < 5 ? 1 : 0) << row;
    }
    for (int64_t i = 0; i < kTop; ++i) {
      const auto which = got.best[static_cast<size_t>(row * kTop + i)];
      ASSERT_GE(which, 0);
      EXPECT_NEAR(got.scores[static_cast<size_t>(row * kTop + i)], logits[which], 1e-4);
      int64_t better = 0;
      for (int64_t c = 0; c < problem.classes; ++c) {
        better += logits[c] > logits[which] + 1e-4 ? 1 : 0;
      }
      EXPECT_LE(better, i);
    }
  }
}

class HeadOnIsa : public testing::TestWithParam<std::tuple<Isa, bool>> {
 protected:
  void SetUp() override {
    if (!has(isa())) {
      GTEST_SKIP() << "this processor has no " << name_of(isa());
    }
  }
  Isa isa() const { return std::get<0>(GetParam()); }
  bool bf16() const { return std::get<1>(GetParam()); }
};

// All instruction sets. Threads share the work of a head in one way for all of them, and ThreadSanitizer makes these
// tests very slow, so with it only the last one that the processor has is tested.
std::vector<std::tuple<Isa, bool>> isa_cases() {
  std::vector<std::tuple<Isa, bool>> cases;
  for (const bool bf16 : {false, true}) {
    std::vector<Isa> tested = isas(bf16);
#if defined(__SANITIZE_THREAD__)
    std::erase_if(tested, [](Isa isa) { return !has(isa); });
    tested = {tested.back()};
#endif
    for (const Isa isa : tested) {
      cases.emplace_back(isa, bf16);
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, HeadOnIsa, testing::ValuesIn(isa_cases()), [](const auto& param) {
  return std::string(name_of(std::get<0>(param.param))) + (std::get<1>(param.param) ? "_in_bf16" : "_in_f32");
});

TEST_P(HeadOnIsa, PlainSoftmaxMatchesTheOracleForEveryShardCountAndSplit) {
  for (const int64_t shards : {1, 2, 3, 4, 8}) {
    for (const int64_t parts : {1, 2, 4, 7}) {
      // 1001 classes are 16 blocks of 64, of which the last is not full; 43 dimensions are not a multiple of the vector
      // width.
      const test::HeadProblem problem = make_problem({.classes = 1001,
                                                      .dim = 43,
                                                      .rows = 28,
                                                      .bf16 = bf16(),
                                                      .bias = true,
                                                      .seed = static_cast<uint64_t>(shards * 10 + parts)});
      expect_right(problem, {.shards = shards, .pass_rows = 28 / parts, .norm_rows = parts == 7 ? 4 : 7, .isa = isa()});
    }
  }
}

TEST_P(HeadOnIsa, EveryMarginMatchesTheOracleWithExtremeCosines) {
  const MarginForm forms[] = {
      margin(16, 1, 0, 0),
      margin(64, 1, 0.5, 0),
      margin(16, 1, 0.5, 0),
      margin(24, 1, 0, 0.4),
      margin(16, 1.35, 0, 0),
      margin(64, 1, 0.3, 0.2),
      margin(16, 1, 0.5, 0, MarginGrad::kStraight),
      margin(16, 1, 0.5, 0, MarginGrad::kThreshold),
      margin(30, 2, 0.4, 0.1, MarginGrad::kThreshold),
  };
  uint64_t seed = 100;
  for (MarginForm form : forms) {
    for (const bool easy : {false, true}) {
      form.easy = easy;
      expect_right(make_problem({.classes = 333,
                                 .dim = 64,
                                 .rows = 30,
                                 .bf16 = bf16(),
                                 .cosine = true,
                                 .margin = form,
                                 .extremes = true,
                                 .seed = ++seed}),
                   {.shards = 3, .pass_rows = 30, .norm_rows = 10, .isa = isa()});
    }
  }
}

const MarginForm kFilteredForms[] = {margin(16, 1, 0, 0), margin(16, 1, 0.5, 0), margin(24, 1, 0, 0.4),
                                     margin(16, 1.35, 0, 0), margin(16, 1, 0.3, 0.2)};

TEST_P(HeadOnIsa, FiltersMatchTheOracleWithEveryMargin) {
  uint64_t seed = 300;
  for (const MarginForm& form : kFilteredForms) {
    test::HeadProblem problem = make_problem({.classes = 333,
                                              .dim = 64,
                                              .rows = 30,
                                              .bf16 = bf16(),
                                              .cosine = true,
                                              .margin = form,
                                              .extremes = true,
                                              .seed = ++seed});
    problem.margin.smoothing = form.of_cosines() ? 0 : 0.1;
    const StepPlan plan{.shards = 3, .pass_rows = 30, .norm_rows = 10, .isa = isa(), .kept_blocks = 1};
    const StepResult plain = run_step(problem, plan);
    problem.margin.filter = filter_near(problem, 0.3);
    EXPECT_GE(filtered(problem), 8);
    expect_right(problem, plan);
    const StepResult got = run_step(problem, plan);
    EXPECT_NE(got.loss, plain.loss);
    EXPECT_EQ(got.best, plain.best) << "metrics look at what the head gives";
    EXPECT_EQ(got.scores, plain.scores);
    EXPECT_EQ(got.hit1, plain.hit1);
    EXPECT_EQ(got.hit5, plain.hit5);
  }
}

TEST_P(HeadOnIsa, TheExactSlopeMatchesTheOracleAwayFromUnitCosines) {
  expect_right(make_problem({.classes = 333,
                             .dim = 64,
                             .rows = 30,
                             .bf16 = bf16(),
                             .cosine = true,
                             .margin = margin(16, 1.2, 0.3, 0.1, MarginGrad::kExact),
                             .seed = 7}),
               {.shards = 2, .pass_rows = 30, .norm_rows = 5, .isa = isa()});
}

TEST(Margin, TheExactSlopeIsFiniteAtUnitCosines) {
  for (const double x : {-1.0, 1.0}) {
    const Margin at_end = margin_of(margin(16, 1, 0.5, 0, MarginGrad::kExact), x);
    EXPECT_TRUE(std::isfinite(at_end.psi) && std::isfinite(at_end.slope)) << x << ": " << at_end.slope;
  }
}

// For all margins, psi increases with the cosine, and the computed slope is the slope of psi.
TEST(Margin, TheCappedSlopeIsThatOfAnIncreasingMargin) {
  constexpr double kStep = 1e-6;
  for (const double m1 : {0.5, 1.0, 1.35, 2.0, 4.0}) {
    for (const double m2 : {-3.2, -0.5, 0.0, 0.5, 3.2}) {
      const MarginForm form = margin(16, m1, m2, 0.1, MarginGrad::kCapped);
      for (double x = -0.995; x < 1; x += 0.01) {
        const double numeric = (margin_of(form, x + kStep).psi - margin_of(form, x - kStep).psi) / (2 * kStep);
        EXPECT_GE(numeric, -1e-6) << m1 << " " << m2 << " " << x;
        EXPECT_NEAR(margin_of(form, x).slope, numeric, 1e-3 * (1 + std::abs(numeric))) << m1 << " " << m2 << " " << x;
      }
    }
  }
}

TEST_P(HeadOnIsa, SmoothingMatchesTheOracle) {
  for (const bool cosine : {false, true}) {
    MarginForm form = margin(cosine ? 16 : 1, 1, 0, cosine ? 0.2 : 0);
    form.smoothing = 0.1;
    expect_right(make_problem({.classes = 500,
                               .dim = 48,
                               .rows = 20,
                               .bf16 = bf16(),
                               .cosine = cosine,
                               .bias = !cosine,
                               .margin = form,
                               .seed = 11}),
                 {.shards = 2, .pass_rows = 10, .norm_rows = 5, .isa = isa()});
  }
}

TEST_P(HeadOnIsa, WeightedRowsMatchTheOracle) {
  MarginForm smooth;
  smooth.smoothing = 0.1;
  for (const MarginForm& form : {smooth, margin(16, 1, 0, 0.2), margin(32, 1, 0.4, 0)}) {
    for (const int64_t parts : {1, 2}) {
      test::HeadProblem problem = make_problem({.classes = 500,
                                                .dim = 48,
                                                .rows = 20,
                                                .bf16 = bf16(),
                                                .cosine = form.of_cosines(),
                                                .bias = !form.of_cosines(),
                                                .margin = form,
                                                .seed = 12});
      problem.factors = some_factors(problem.rows);
      expect_right(problem, {.shards = 2, .pass_rows = 20 / parts, .norm_rows = 5, .isa = isa()});
    }
  }
}

TEST_P(HeadOnIsa, FactorsOfOneDoNotChangeResults) {
  test::HeadProblem problem = make_problem(
      {.classes = 500, .dim = 48, .rows = 20, .bf16 = bf16(), .cosine = true, .margin = margin(32, 1, 0.4, 0.1)});
  const StepPlan plan{.shards = 2, .pass_rows = 20, .norm_rows = 5, .isa = isa()};
  const StepResult none = run_step(problem, plan);
  problem.factors.assign(20, 1);
  EXPECT_TRUE(run_step(problem, plan) == none);
}

TEST_P(HeadOnIsa, ManyClassesInLargeBlocksMatchTheOracle) {
  // The head of the glyph models: 20 902 classes in 82 blocks of 256.
  expect_right(make_problem({.classes = 20902,
                             .dim = 96,
                             .rows = 16,
                             .bf16 = bf16(),
                             .cosine = true,
                             .margin = margin(24, 1, 0, 0.1),
                             .seed = 21}),
               {.shards = 2, .pass_rows = 16, .norm_rows = 8, .workers = 2, .isa = isa()});
}

// Results have equal bits for every plan (docs/internals/determinism.md, "Class blocks" to "Head sweeps").
TEST_P(HeadOnIsa, BitsDoNotDependOnShardsWorkersOrFusion) {
  for (const bool cosine : {false, true}) {
    test::HeadProblem problem = make_problem({.classes = 2500,
                                              .dim = 72,
                                              .rows = 40,
                                              .bf16 = bf16(),
                                              .cosine = cosine,
                                              .bias = !cosine,
                                              .margin = cosine ? margin(32, 1, 0.4, 0.1) : margin(1, 1, 0, 0),
                                              .seed = 31});
    problem.factors = cosine ? some_factors(problem.rows) : std::vector<float>();
    const StepResult one = run_step(problem, {.pass_rows = 40, .norm_rows = 20, .isa = isa()});
    for (const int64_t shards : {1, 2, 3, 5, 8}) {
      for (const int workers : {1, 2, 3}) {
        for (const bool fused : {false, true}) {
          SCOPED_TRACE("shards " + std::to_string(shards) + " workers " + std::to_string(workers) + " fused " +
                       std::to_string(fused));
          StepResult other = run_step(
              problem,
              {.shards = shards, .pass_rows = 40, .norm_rows = 20, .workers = workers, .isa = isa(), .fused = fused});
          EXPECT_NEAR(other.squares, one.squares, 1e-12 * one.squares);
          other.squares = one.squares;  // summed by shard here; the next test compares sums of blocks
          EXPECT_TRUE(other == one);
        }
      }
    }
  }
}

TEST_P(HeadOnIsa, BitsDoNotDependOnTheLogitsThatAreKept) {
  for (const bool cosine : {false, true}) {
    const test::HeadProblem problem = make_problem({.classes = 1100,
                                                    .dim = 72,
                                                    .rows = 560,
                                                    .bf16 = bf16(),
                                                    .cosine = cosine,
                                                    .bias = !cosine,
                                                    .margin = cosine ? margin(32, 1, 0.4, 0.1) : margin(1, 1, 0, 0),
                                                    .seed = 32});
    for (const int64_t pass_rows : {560, 140}) {
      const bool fused = pass_rows == problem.rows;
      StepPlan plan{.shards = 2, .pass_rows = pass_rows, .norm_rows = 28, .workers = 2, .isa = isa(), .fused = fused};
      const StepResult none = run_step(problem, plan);
      for (const int64_t kept : {1, 3, 100}) {
        plan.kept_blocks = kept;
        EXPECT_TRUE(run_step(problem, plan) == none) << kept << " blocks a shard, " << pass_rows << " rows a pass";
      }
    }
  }
}

// Passes compute with the values of rows in narrow formats under every plan, and the update stores one of the two
// neighbours of the f32 result.
TEST_P(HeadOnIsa, RowsInNarrowFormatsGiveTheBitsOfEqualRowsInF32) {
  for (const RowFormat format : {RowFormat::kBf16, RowFormat::kFp8}) {
    for (const bool cosine : {false, true}) {
      test::HeadProblem problem = make_problem({.classes = 700,
                                                .dim = 72,
                                                .rows = 48,
                                                .bf16 = bf16(),
                                                .cosine = cosine,
                                                .bias = !cosine,
                                                .margin = cosine ? margin(32, 1, 0.4, 0.1) : margin(1, 1, 0, 0),
                                                .seed = 33});
      problem.weight = NarrowRows(format, problem.weight, problem.dim).values();
      StepPlan plan{.shards = 2, .pass_rows = 48, .norm_rows = 12, .isa = isa(), .fused = true};
      const StepResult wide = run_step(problem, plan);
      plan.weights = format;
      plan.states = RowFormat::kBf16;
      const StepResult narrow = run_step(problem, plan);
      EXPECT_EQ(narrow.loss, wide.loss);
      EXPECT_EQ(narrow.dx, wide.dx);
      EXPECT_EQ(narrow.dw, wide.dw);
      EXPECT_EQ(narrow.best, wide.best);
      const double step = format == RowFormat::kBf16 ? 0x1p-7 : 0x1p-3;  // spacing of the format relative to a value
      for (size_t i = 0; i < wide.weight.size(); ++i) {
        float largest = 0;
        for (int64_t d = 0; format == RowFormat::kFp8 && d < problem.dim; ++d) {
          const size_t row = i / static_cast<size_t>(problem.dim) * static_cast<size_t>(problem.dim);
          largest = std::max(largest, std::abs(wide.weight[row + static_cast<size_t>(d)]));
        }
        // Below the smallest normal number of a row, the format's steps are equal: 2^-9 of the row's scale, which is
        // below largest / 224.
        ASSERT_LE(std::abs(narrow.weight[i] - wide.weight[i]),
                  std::max(step * std::abs(wide.weight[i]), 0x1p-9 * largest / 224))
            << i;
        ASSERT_LE(std::abs(narrow.state[i] - wide.state[i]), 0x1p-7 * std::abs(wide.state[i])) << i;
      }
      for (const int64_t shards : {1, 3}) {
        for (const int64_t rows : {12, 48}) {
          const bool fused = rows == problem.rows;
          const StepResult other = run_step(problem, {.shards = shards,
                                                      .pass_rows = rows,
                                                      .norm_rows = 12,
                                                      .workers = 2,
                                                      .isa = isa(),
                                                      .fused = fused,
                                                      .kept_blocks = shards,
                                                      .weights = format,
                                                      .states = RowFormat::kBf16});
          EXPECT_EQ(other.loss, narrow.loss);
          EXPECT_EQ(other.dx, narrow.dx);
          EXPECT_EQ(other.weight, narrow.weight);
          EXPECT_EQ(other.state, narrow.state);
          EXPECT_EQ(other.prepared, narrow.prepared);
        }
      }
    }
  }
}

// Expects that the active classes are trained like a head of their own and that all other rows stay unchanged, for any
// shards, rows of a pass, and row format.
void expect_own_head(const test::HeadProblem& problem, StepPlan plan) {
  SCOPED_TRACE(text_of(problem, plan) + " active " + std::to_string(plan.active));
  const StepResult got = run_step(problem, plan);
  EXPECT_EQ(got.active.size(), static_cast<size_t>(plan.active));
  EXPECT_TRUE(std::is_sorted(got.active.begin(), got.active.end()));
  test::HeadProblem part = part_of(problem, got.active);
  EXPECT_TRUE(std::equal(part.labels.begin(), part.labels.end(), problem.labels.begin(), [](int32_t a, int32_t b) {
    return (a < 0) == (b < 0);
  })) << "targets take part";
  part.target_logits = got.target;
  const test::HeadAnswer want = solve(part);
  const double bound = problem.bf16 ? 1e-2 : 1e-5;
  EXPECT_LE(test::relative_error(got.loss, want.loss), bound);
  EXPECT_LE(test::relative_error(got.dx, want.dx), bound);
  std::vector<double> dw(got.dw.size());
  std::vector<double> moved(got.dw.size());
  std::vector<float> got_moved(got.dw.size());
  for (size_t i = 0; i < got.active.size(); ++i) {
    for (int64_t d = 0; d < problem.dim; ++d) {
      const auto at = static_cast<size_t>(got.active[i] * problem.dim + d);
      dw[at] = want.dw[i * static_cast<size_t>(problem.dim) + static_cast<size_t>(d)];
      moved[at] = 0.1 * (0.45 + dw[at] + 0.01 * static_cast<double>(problem.weight[at]));
    }
  }
  for (size_t i = 0; i < moved.size(); ++i) {
    got_moved[i] = problem.weight[i] - got.weight[i];
    if (moved[i] == 0) {
      ASSERT_EQ(got.weight[i], problem.weight[i]) << "what takes no part stays as it is";
    }
  }
  EXPECT_LE(test::relative_error(got.dw, dw), bound);
  EXPECT_LE(test::relative_error(got_moved, moved), bound);
  for (const int32_t best : got.best) {
    EXPECT_TRUE(std::binary_search(got.active.begin(), got.active.end(), best));
  }

  for (const RowFormat format : {RowFormat::kF32, RowFormat::kBf16, RowFormat::kFp8}) {
    plan.weights = format;
    plan.states = format == RowFormat::kF32 ? RowFormat::kF32 : RowFormat::kBf16;
    const StepResult one = run_step(problem, plan);
    for (const int64_t shards : {1, 2, 3}) {
      for (const int64_t rows : {12, 48}) {
        StepPlan other_plan = plan;
        other_plan.shards = shards;
        other_plan.pass_rows = rows;
        other_plan.fused = rows == 48;
        other_plan.workers = 2;
        other_plan.kept_blocks = shards - 1;
        const StepResult other = run_step(problem, other_plan);
        EXPECT_EQ(other.active, one.active);
        EXPECT_EQ(other.loss, one.loss);
        EXPECT_EQ(other.dx, one.dx);
        EXPECT_EQ(other.weight, one.weight);
        EXPECT_EQ(other.bias, one.bias);
        EXPECT_EQ(other.state, one.state);
        EXPECT_EQ(other.prepared, one.prepared);
        EXPECT_EQ(other.best, one.best);
        EXPECT_EQ(other.hit5, one.hit5);
      }
    }
  }
}

test::HeadProblem selected_problem(int64_t classes, bool bf16, bool cosine) {
  MarginForm form = cosine ? margin(16, 1, 0.3, 0.1) : margin(1, 1, 0, 0);
  form.smoothing = cosine ? 0 : 0.1;
  test::HeadProblem problem = make_problem({.classes = classes,
                                            .dim = 40,
                                            .rows = 48,
                                            .bf16 = bf16,
                                            .cosine = cosine,
                                            .bias = !cosine,
                                            .margin = form,
                                            .seed = 34});
  problem.labels[3] = problem.labels[5];
  problem.labels[9] = -1;
  return problem;
}

TEST_P(HeadOnIsa, ActiveClassesAreTrainedLikeAHeadOfTheirOwn) {
  for (const auto& [classes, active] : {std::pair<int64_t, int64_t>{3000, 300}, {900, 800}, {20'902, 400}}) {
    for (const bool cosine : {false, true}) {
      expect_own_head(selected_problem(classes, bf16(), cosine),
                      {.pass_rows = 48, .norm_rows = 12, .isa = isa(), .fused = true, .active = active});
    }
  }
}

// All active classes lie in the middle block, so the other blocks have no active classes, and neither do two of three
// shards.
TEST_P(HeadOnIsa, BlocksWithoutActiveClassesAddNothing) {
  constexpr int64_t kClasses = 20'902;
  constexpr int32_t kFirst = 8192;
  constexpr int64_t kActive = 400;
  StepPlan plan{
      .pass_rows = 48, .norm_rows = 12, .isa = isa(), .fused = true, .active = kActive, .neighbours = kActive};
  for (int64_t i = 0; i < kClasses * kActive; ++i) {
    plan.lists.push_back(kFirst + static_cast<int32_t>(i % kActive));
  }
  for (const bool cosine : {false, true}) {
    test::HeadProblem problem = selected_problem(kClasses, bf16(), cosine);
    for (int32_t& label : problem.labels) {
      label = label < 0 ? label : kFirst + label % static_cast<int32_t>(kActive);
    }
    ASSERT_EQ(shape_of(problem, plan, 0, 48).blocks.count(), 3);
    expect_own_head(problem, plan);
  }
}

TEST_P(HeadOnIsa, CorrectionsAndFiltersOfSelectedClassesMatchTheOracle) {
  std::vector<MarginForm> forms(kFilteredForms, std::end(kFilteredForms));
  forms.push_back(margin(1, 1, 0, 0));  // a head with bias
  for (MarginForm form : forms) {
    const bool cosine = form.scale > 1;
    form.smoothing = form.of_cosines() ? 0 : 0.1;
    test::HeadProblem problem = make_problem({.classes = 3000,
                                              .dim = 40,
                                              .rows = 48,
                                              .bf16 = bf16(),
                                              .cosine = cosine,
                                              .bias = !cosine,
                                              .margin = form,
                                              .seed = 340});
    problem.labels[3] = problem.labels[5];
    problem.labels[9] = -1;
    const StepPlan plan{.pass_rows = 48, .norm_rows = 12, .isa = isa(), .fused = true, .active = 300};
    SCOPED_TRACE(text_of(problem, plan));
    const StepResult plain = run_step(problem, plan);
    const RandomStream stream(341, 1);
    for (uint64_t c = 0; c < 3000; ++c) {
      problem.corrections.push_back(stream.uniform(c, -3, 1));
    }
    if (cosine) {
      problem.margin.filter = filter_near(part_of(problem, plain.active), 0.45);
    }
    const StepResult got = run_step(problem, plan);
    ASSERT_EQ(got.active, plain.active);
    test::HeadProblem part = part_of(problem, got.active);
    part.target_logits = got.target;
    const test::HeadAnswer want = solve(part);
    const double bound = bf16() ? 1e-2 : 1e-5;
    EXPECT_LE(test::relative_error(got.loss, want.loss), bound);
    EXPECT_LE(test::relative_error(got.dx, want.dx), bound);
    std::vector<double> dw(got.dw.size());
    for (size_t i = 0; i < got.active.size(); ++i) {
      std::copy_n(want.dw.begin() + static_cast<int64_t>(i) * problem.dim, problem.dim,
                  dw.begin() + got.active[i] * problem.dim);
    }
    EXPECT_LE(test::relative_error(got.dw, dw), bound);
    EXPECT_NE(got.loss, plain.loss);
    EXPECT_EQ(got.best, plain.best) << "metrics look at what the head gives";
    EXPECT_EQ(got.scores, plain.scores);
    EXPECT_EQ(got.hit1, plain.hit1);
    EXPECT_EQ(got.hit5, plain.hit5);
    for (const int64_t shards : {1, 3}) {
      for (const int64_t rows : {12, 48}) {
        const StepResult other = run_step(problem, {.shards = shards,
                                                    .pass_rows = rows,
                                                    .norm_rows = 12,
                                                    .workers = 2,
                                                    .isa = isa(),
                                                    .fused = rows == 48,
                                                    .kept_blocks = shards - 1,
                                                    .active = 300});
        EXPECT_EQ(other.loss, got.loss);
        EXPECT_EQ(other.dx, got.dx);
        EXPECT_EQ(other.weight, got.weight);
        EXPECT_EQ(other.bias, got.bias);
        EXPECT_EQ(other.prepared, got.prepared);
        EXPECT_EQ(other.best, got.best);
        EXPECT_EQ(other.hit5, got.hit5);
      }
    }
  }
}

TEST_P(HeadOnIsa, BitsDoNotDependOnTheRowsOfAPass) {
  const test::HeadProblem problem = make_problem({.classes = 700,
                                                  .dim = 72,
                                                  .rows = 48,
                                                  .bf16 = bf16(),
                                                  .cosine = true,
                                                  .margin = margin(32, 1, 0.4, 0.1),
                                                  .seed = 41});
  const StepResult one = run_step(problem, {.pass_rows = 48, .norm_rows = 12, .isa = isa(), .fused = true});
  for (const int64_t rows : {12, 24}) {
    const StepResult other = run_step(problem, {.shards = 2, .pass_rows = rows, .norm_rows = 12, .isa = isa()});
    EXPECT_EQ(other.loss, one.loss);
    EXPECT_EQ(other.dx, one.dx);
    EXPECT_EQ(other.weight, one.weight);
    EXPECT_EQ(other.state, one.state);
    EXPECT_EQ(other.prepared, one.prepared);
    EXPECT_EQ(other.best, one.best);
    EXPECT_EQ(other.hit5, one.hit5);
  }
}

TEST_P(HeadOnIsa, PassesWithMoreRowsThanATileMatchTheOracle) {
  // A tile holds fewer than 600 rows.
  expect_right(make_problem({.classes = 130, .dim = 32, .rows = 600, .bf16 = bf16(), .bias = true, .seed = 51}),
               {.pass_rows = 600, .norm_rows = 60, .workers = 2, .isa = isa()});
}

// The part of a row that is perpendicular to the class weight is added once, after all groups of rows and tiles of the
// class block.
TEST_P(HeadOnIsa, AngularMarginsOfManyRowsMatchTheOracle) {
  test::HeadProblem problem = make_problem({.classes = 300,
                                            .dim = 32,
                                            .rows = 600,
                                            .bf16 = bf16(),
                                            .cosine = true,
                                            .margin = margin(16, 1, 0.5, 0),
                                            .seed = 52});
  // Every 50th row has class 7 and is almost parallel to the weight of this class.
  for (int64_t row = 0; row < problem.rows; row += 50) {
    problem.labels[static_cast<size_t>(row)] = 7;
    for (int64_t d = 0; d < problem.dim; ++d) {
      problem.features[static_cast<size_t>(row * problem.dim + d)] =
          problem.weight[static_cast<size_t>(7 * problem.dim + d)] * (d == row / 50 ? 1.02F : 1.0F);
    }
  }
  for (const bool fused : {false, true}) {
    expect_right(problem, {.pass_rows = 600, .norm_rows = 60, .workers = 2, .isa = isa(), .fused = fused});
  }
  expect_right(problem, {.shards = 2, .pass_rows = 120, .norm_rows = 60, .isa = isa()});
}

TEST_P(HeadOnIsa, FeaturesInBf16GiveTheResultsOfEqualFeaturesInF32) {
  test::HeadProblem problem =
      make_problem({.classes = 300, .dim = 40, .rows = 16, .bf16 = bf16(), .cosine = true, .seed = 61});
  for (float& x : problem.features) {
    x = to_float(to_bf16(x));
  }
  const StepPlan plan{.pass_rows = 16, .norm_rows = 8, .isa = isa()};
  StepPlan narrow = plan;
  narrow.narrow_features = true;
  EXPECT_TRUE(run_step(problem, plan) == run_step(problem, narrow));
}

TEST_P(HeadOnIsa, OperandsInF16MatchTheOracle) {
  if (bf16()) {
    GTEST_SKIP() << "operands have one type";
  }
  for (const bool cosine : {false, true}) {
    test::HeadProblem problem =
        make_problem({.classes = 300, .dim = 43, .rows = 24, .cosine = cosine, .bias = !cosine, .seed = 62});
    problem.f16 = true;
    std::optional<StepResult> first;
    for (const int64_t shards : {1, 3}) {
      const StepPlan plan{.shards = shards, .pass_rows = 24, .norm_rows = 8, .workers = 2, .isa = isa()};
      expect_right(problem, plan);
      const StepResult result = run_step(problem, plan);
      first = first.value_or(result);
      EXPECT_TRUE(result == *first) << shards << " shards";
    }
  }
}

TEST_P(HeadOnIsa, FeaturesInF16GiveTheResultsOfEqualFeaturesInF32) {
  if (bf16()) {
    GTEST_SKIP() << "operands have one type";
  }
  test::HeadProblem problem = make_problem({.classes = 300, .dim = 40, .rows = 16, .cosine = true, .seed = 63});
  problem.f16 = true;
  for (float& x : problem.features) {
    x = to_float(to_f16(x));
  }
  const StepPlan plan{.pass_rows = 16, .norm_rows = 8, .isa = isa()};
  StepPlan narrow = plan;
  narrow.narrow_features = true;
  EXPECT_TRUE(run_step(problem, plan) == run_step(problem, narrow));
  test::HeadProblem wide = problem;
  wide.f16 = false;
  EXPECT_FALSE(run_step(wide, plan) == run_step(problem, narrow)) << "class weights were not rounded";
}

TEST_P(HeadOnIsa, TiesGoToTheLowerClass) {
  test::HeadProblem problem = make_problem({.classes = 640, .dim = 32, .rows = 32, .bf16 = bf16(), .seed = 71});
  // All class weights are equal, so all logits of a row are equal.
  for (size_t i = 0; i < problem.weight.size(); ++i) {
    problem.weight[i] = problem.weight[i % 32];
  }
  for (size_t row = 0; row < 32; ++row) {
    problem.labels[row] = static_cast<int32_t>(row % 8);
  }
  const StepResult got = run_step(problem, {.shards = 3, .pass_rows = 32, .norm_rows = 32, .isa = isa()});
  for (size_t row = 0; row < 32; ++row) {
    for (int32_t i = 0; i < kTop; ++i) {
      EXPECT_EQ(got.best[row * kTop + static_cast<size_t>(i)], i);
    }
    EXPECT_EQ(got.hit1[row], row % 8 == 0 ? 1 : 0);
    EXPECT_EQ(got.hit5[row], row % 8 < 5 ? 1 : 0);
  }
}

TEST_P(HeadOnIsa, RowsWithoutATargetHaveWeightZero) {
  test::HeadProblem problem = make_problem({.classes = 300,
                                            .dim = 40,
                                            .rows = 16,
                                            .bf16 = bf16(),
                                            .cosine = true,
                                            .margin = {.scale = 16, .m3 = 0.1, .smoothing = 0.1},
                                            .seed = 82});
  problem.labels[3] = -1;
  problem.labels[9] = 300;
  const StepPlan plan{.shards = 2, .pass_rows = 16, .norm_rows = 8, .isa = isa()};
  const StepResult got = run_step(problem, plan);
  problem.target_logits = got.target;
  const test::HeadAnswer want = solve(problem);
  const double bound = bf16() ? 1e-2 : 1e-5;
  EXPECT_LE(test::relative_error(got.loss, want.loss), bound);
  EXPECT_LE(test::relative_error(got.dx, want.dx), bound);
  EXPECT_LE(test::relative_error(got.dw, want.dw), bound);
  for (const size_t row : {3U, 9U}) {
    EXPECT_EQ(got.loss[row], 0) << row;
    EXPECT_EQ(got.hit5[row], 0) << row;
    EXPECT_EQ(std::count(got.dx.begin() + static_cast<int64_t>(row) * 40,
                         got.dx.begin() + static_cast<int64_t>(row + 1) * 40, 0.0F),
              40)
        << row;
  }
}

TEST_P(HeadOnIsa, ANaNMakesOnlyItsRowNaN) {
  test::HeadProblem problem = make_problem({.classes = 300, .dim = 40, .rows = 16, .bf16 = bf16(), .seed = 81});
  problem.features[3 * 40 + 5] = NAN;
  const StepResult got = run_step(problem, {.shards = 2, .pass_rows = 16, .norm_rows = 8, .isa = isa()});
  for (size_t row = 0; row < 16; ++row) {
    EXPECT_EQ(std::isnan(got.loss[row]), row == 3) << row;
    EXPECT_EQ(std::isnan(got.dx[row * 40]), row == 3) << row;
  }
  EXPECT_EQ(got.hit5[3], 0);
}

}  // namespace
}  // namespace xrun::ops
