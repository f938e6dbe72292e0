// The combination of the results of shards on GPUs without labels: softmax, best classes, and all logits by class.
#include "tests/ops/gpu/head/head_runner.h"

namespace xrun::ops::gpu {
namespace {

constexpr int64_t kRows = 5, kClasses = 200, kDim = 12;

// Statistics of two shards of four class blocks, one with a single block, and their combination.
TEST(GpuHeadJoin, PredictionsHaveSoftmaxAndLogitsWithoutLabels) {
  for (const bool by_class : {false, true}) {
    test::HeadProblem problem = make_problem({.classes = kClasses, .dim = kDim, .rows = kRows, .bias = true});
    problem.bias[70] = NAN;
    problem.bias[71] = -INFINITY;
    GpuStep step{.plan = {.shards = 3, .pass_rows = kRows, .norm_rows = kRows}};
    const int64_t k = by_class ? kClasses : 3;
    Device device(step.target, step.order);
    const uint64_t weight = device.add("weight", raw(problem.weight)), bias = device.add("bias", raw(problem.bias));
    const uint64_t features = device.add("features", raw(problem.features));
    const GpuTarget target = gpu_target(step.target);
    const GpuCombine what{.best = {{.k = k, .by_class = by_class}}};
    std::vector<uint64_t> joined(static_cast<size_t>(what.stats(3)));
    std::vector<ClassRange> shards;
    HeadShape shape;
    for (int64_t shard = 0; shard < 3; ++shard) {
      shape = gpu_shape_of(problem, step, shard, kRows);
      shape.top_k = k;
      shards.push_back(shape.shard);
      std::vector<uint64_t> inputs(static_cast<size_t>(GpuHeadOperand::kCount));
      const auto set = [&](GpuHeadOperand which, uint64_t address) { inputs[static_cast<size_t>(which)] = address; };
      const uint64_t stats = device.add("stats", head_stats_bytes(shape));
      set(GpuHeadOperand::kFeatures, features);
      set(GpuHeadOperand::kWeight, weight + static_cast<uint64_t>(shape.shard.begin * kDim) * 4);
      set(GpuHeadOperand::kBias, bias + static_cast<uint64_t>(shape.shard.begin) * 4);
      set(GpuHeadOperand::kStats, stats);
      const uint64_t scratch = device.add("scratch", head_scratch_bytes(shape, HeadPass::kForward));
      ASSERT_TRUE(device.run(GpuHeadPasses(shape, target).forward(false), {.inputs = inputs, .scratch = scratch}));
      joined[static_cast<size_t>(what.stats(static_cast<size_t>(shard)))] = stats;
    }
    const uint64_t softmax = joined[GpuCombine::kSoftmax] = device.add("softmax", kRows * 8);
    const uint64_t best = joined[static_cast<size_t>(what.best_classes(0))] = device.add("best", kRows * k * 4);
    const uint64_t scores = joined[static_cast<size_t>(what.best_scores(0))] = device.add("scores", kRows * k * 4);
    const uint64_t scratch = device.add("scratch", gpu_join_scratch(shape, shards, false).total);
    ASSERT_TRUE(
        device.run(GpuHeadJoin(shape, shards, target).combine_stats(what), {.inputs = joined, .scratch = scratch}));
    const auto classes = values_of<int32_t>(device.read(best, static_cast<size_t>(kRows * k) * 4));
    const auto logits = values_of<float>(device.read(scores, static_cast<size_t>(kRows * k) * 4));
    test::HeadProblem finite = problem;
    finite.bias[70] = finite.bias[71] = 0;
    const std::vector<double> want = solve(finite).logits;
    for (int64_t row = 0; row < kRows; ++row) {
      std::vector<int32_t> order;
      for (int32_t c = 0; c < kClasses; ++c) {
        if (by_class || (c != 70 && c != 71)) {
          order.push_back(c);
        }
      }
      const auto logit = [&](int32_t c) { return want[static_cast<size_t>(row * kClasses + c)]; };
      if (!by_class) {
        std::ranges::sort(order, [&](int32_t a, int32_t b) { return logit(a) > logit(b); });
      }
      for (int64_t i = 0; i < k; ++i) {
        const auto at = static_cast<size_t>(row * k + i);
        const int32_t c = order[static_cast<size_t>(i)];
        EXPECT_EQ(classes[at], c) << "row " << row;
        if (by_class && (c == 70 || c == 71)) {
          EXPECT_TRUE(std::isnan(logits[at])) << "a logit that is NaN or minus infinity";
        } else {
          EXPECT_NEAR(static_cast<double>(logits[at]), logit(c), 1e-5) << "row " << row << ", class " << c;
        }
      }
    }
    const auto sums = values_of<float>(device.read(softmax, kRows * 8));
    EXPECT_TRUE(std::isnan(sums[1])) << "a logit is NaN";
  }
}

}  // namespace
}  // namespace xrun::ops::gpu
