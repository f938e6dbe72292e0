// Heads on GPUs: equal bits for every grouping of rows, class blocks and shards, and steps whose flag word is set.
#include "tests/ops/gpu/head/head_runner.h"

namespace xrun::ops::gpu {
namespace {

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

// 268 classes are five class blocks, and 64 rows are four row blocks.
TEST(GpuHead, BitsDependOnNoGroupingAndOnNoOrderOfWarps) {
  for (const bool bf16 : {false, true}) {
    ProblemSpec spec = spec_of(bf16, bf16 ? margin(16, 1, 0.5, 0) : margin(1, 1, 0, 0), 7);
    spec.classes = 268;
    spec.rows = 64;
    test::HeadProblem problem = make_problem(spec);
    problem.weight = NarrowRows(RowFormat::kBf16, problem.weight, kDim).values();
    problem.labels[2] = problem.labels[40] = 65;
    problem.margin.smoothing = bf16 ? 0 : 0.1;
    StepPlan plan{.shards = 1,
                  .pass_rows = 64,
                  .norm_rows = 16,
                  .fused = true,
                  .weights = RowFormat::kBf16,
                  .form = {.kind = OptimizerKind::kAdamw, .states = 2}};
    const StepResult want = run_on_gpu(problem, {.plan = plan});
    struct Grouping {
      int64_t shards, pass_rows;
      bool fused;
      int64_t kept_blocks;
      GpuHeadWork work;
      ptx::Order order;
    };
    for (const Grouping& by : {Grouping{3, 32, false, 0, {64, 32}, ptx::Order::kReversed},
                               Grouping{2, 32, false, 1, {128, 1024}, ptx::Order::kThreadLast},
                               Grouping{5, 64, true, 1, {512, 64}, ptx::Order::kGreedy},
                               Grouping{1, 64, true, 3, {512, 32}, ptx::Order::kRandom}}) {
      plan.shards = by.shards;
      plan.pass_rows = by.pass_rows;
      plan.fused = by.fused;
      plan.kept_blocks = by.kept_blocks;
      StepResult got = run_on_gpu(
          problem,
          {.plan = plan, .work = by.work, .by_nodes = by.shards > 2, .reads_scale = by.shards == 2, .order = by.order});
      const std::string text = std::to_string(by.shards) + " shards, passes of " + std::to_string(by.pass_rows) +
                               " rows" + (bf16 ? ", bf16" : ", f32");
      if (by.pass_rows < 64) {  // only a single pass reads the plain gradients
        got.dw = want.dw;
        got.db = want.db;
        got.squares = want.squares;
      }
      EXPECT_NEAR(got.squares, want.squares, 1e-12 * want.squares) << text;  // the test adds those of shards
      got.squares = want.squares;
      EXPECT_TRUE(same_bits(got.loss, want.loss)) << text;
      EXPECT_TRUE(same_bits(got.dx, want.dx)) << text;
      EXPECT_TRUE(same_bits(got.dw, want.dw)) << text;
      EXPECT_TRUE(same_bits(got.db, want.db)) << text;
      EXPECT_TRUE(same_bits(got.weight, want.weight)) << text;
      EXPECT_TRUE(same_bits(got.state, want.state)) << text;
      EXPECT_TRUE(got == want) << text;
    }
  }
}

TEST(GpuHead, AFlagWordThatIsNotZeroStopsEveryUpdate) {
  for (const bool fused : {false, true}) {
    for (const bool bf16 : {false, true}) {
      const MarginForm form = bf16 ? margin(16, 1, 0.5, 0) : margin(1, 1, 0, 0);
      const test::HeadProblem problem = make_problem(spec_of(bf16, form, 11));
      const GpuStep step{.plan = {.shards = 2, .pass_rows = kRows, .norm_rows = 6, .fused = fused}, .flags = 2};
      HeadOnGpu head(problem, step);
      const StepResult got = head.run();
      EXPECT_EQ(got.weight, problem.weight);
      EXPECT_EQ(got.state, std::vector<float>(got.state.size(), kFirstState));
      EXPECT_EQ(got.bias, problem.bias);
      EXPECT_EQ(head.flags(), 2U) << "every loss is finite";
    }
  }
}

TEST(GpuHead, ALossThatIsNotFiniteSetsItsFlagAndChangesNoRow) {
  test::HeadProblem problem = make_problem(spec_of(false, margin(1, 1, 0, 0), 12));
  problem.features[5 * kDim + 2] = INFINITY;
  for (const bool fused : {false, true}) {
    const GpuStep step{.plan = {.shards = 2, .pass_rows = kRows, .norm_rows = 6, .fused = fused}};
    HeadOnGpu head(problem, step);
    const StepResult got = head.run();
    EXPECT_EQ(head.flags(), 1U);
    EXPECT_FALSE(std::isfinite(got.loss[5]));
    EXPECT_TRUE(std::isfinite(got.loss[4]));
    EXPECT_EQ(got.weight, problem.weight);
    EXPECT_EQ(got.bias, problem.bias);
  }
}

}  // namespace
}  // namespace xrun::ops::gpu
