// Computes the values of a text with the real kernels on one row block: an accepted text must compute what it
// describes.
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "lang/frontend.h"
#include "ops/op.h"
#include "tests/ops/op_runner.h"

namespace xrun::lang {
namespace {

using ops::Values;

constexpr int64_t kRows = 2;

// Computes the outputs of a model. `weights` gives the values of its parameters in order.
struct Computed {
  Graph graph;
  std::map<ValueId, Values> values;

  Computed(const std::string& statements, const std::string& dims, const Values& x,
           const std::vector<Values>& weights = {}) {
    SourceMap sources;
    Diagnostics diagnostics;
    const auto file =
        check_text("values.xgraph", "xgraph 1\n\nmodel m {\n  input x: f32" + dims + "\n" + statements + "}\n", sources,
                   diagnostics, {.ops = &ops::registry()});
    EXPECT_TRUE(file.has_value() && diagnostics.all().empty());
    if (!file) {
      return;
    }
    graph = file->module.graph;
    values[graph.inputs[0].value] = x;
    EXPECT_EQ(graph.params.size(), weights.size());
    for (size_t i = 0; i < std::min(weights.size(), graph.params.size()); ++i) {
      values[graph.params[i].value] = weights[i];
    }
    const ops::RunOptions options{
        .kernel = {.norm_rows = kRows, .training = true, .deterministic = true, .isa = ops::detect_isa()}};
    const Status status = ops::run_graph(graph, options, values);
    EXPECT_TRUE(status.ok()) << status.error().message;
  }
  Values output(size_t i) const { return i < graph.outputs.size() ? values.at(graph.outputs[i].value) : Values{}; }
};

TEST(ComputedValues, ANumberDividedByInfinityIsZero) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Computed made("  y = 1 / x\n  z = 3 / x\n  output y, z\n", "[N, 3]", {kInfinity, -kInfinity, 4, 0.5, -2, 1});
  EXPECT_EQ(made.output(0), (Values{0, 0, 0.25, 2, -0.5, 1}));
  EXPECT_EQ(made.output(1), (Values{0, 0, 0.75, 6, -1.5, 3}));
}

TEST(ComputedValues, PartsOfASplitAreConsecutiveValuesOfItsInput) {
  const Computed made("  (a, b, c) = x -> split(3)\n  output a, b, c\n", "[N, 6]",
                      {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  EXPECT_EQ(made.output(0), (Values{0, 1, 6, 7}));
  EXPECT_EQ(made.output(1), (Values{2, 3, 8, 9}));
  EXPECT_EQ(made.output(2), (Values{4, 5, 10, 11}));
  // Splits the channels of an image, which are the last dimension in memory.
  const Computed image("  (a, b) = x -> split(2)\n  output a, b\n", "[N, 2, 1, 2]", {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(image.output(0), (Values{0, 1, 4, 5}));
  EXPECT_EQ(image.output(1), (Values{2, 3, 6, 7}));
}

TEST(ComputedValues, LinearAppliesToTheLastDimensionOfAnImage) {
  constexpr int64_t kPositions = kRows * 3 * 2;
  const Values x = ops::random_values(kPositions * 4, -1, 1, 1);
  const Values weight = ops::random_values(5 * 4, -1, 1, 2);
  const Values bias = ops::random_values(5, -1, 1, 3);
  const Computed made("  y = x -> linear(5)\n  output y\n", "[N, 3, 2, 4]", x, {weight, bias});
  const Values y = made.output(0);
  ASSERT_EQ(y.size(), static_cast<size_t>(kPositions * 5));
  for (size_t p = 0; p < kPositions; ++p) {
    for (size_t o = 0; o < 5; ++o) {
      double sum = bias[o];
      for (size_t i = 0; i < 4; ++i) {
        sum += weight[o * 4 + i] * x[p * 4 + i];
      }
      EXPECT_NEAR(y[p * 5 + o], sum, 1e-5);
    }
  }
}

TEST(ComputedValues, PoolsOfSizeTwoAndStrideTwoDoNotOverlap) {
  Values x(kRows * 16);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<double>(i);
  }
  const Computed made("  a = x -> max_pool(2, stride=2)\n  b = x -> avg_pool(2, stride=2)\n  output a, b\n",
                      "[N, 1, 4, 4]", x);
  EXPECT_EQ(made.output(0), (Values{5, 7, 13, 15, 21, 23, 29, 31}));
  EXPECT_EQ(made.output(1), (Values{2.5, 4.5, 10.5, 12.5, 18.5, 20.5, 26.5, 28.5}));
}

TEST(ComputedValues, ReshapeWithAnInferredDimensionKeepsTheOrder) {
  const Values x{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const Computed made("  y = x -> reshape([N, -1, 2]) -> flatten(1)\n  output y\n", "[N, 6]", x);
  EXPECT_EQ(made.output(0), x);
}

}  // namespace
}  // namespace xrun::lang
