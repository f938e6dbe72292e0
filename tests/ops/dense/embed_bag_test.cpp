// embed_bag by examples that can be computed by hand; tests/ops/conformance_test.cpp compares it with its formula.
#include <array>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vector>

#include "graph/layouts/row_updates.h"
#include "graph/passes/autodiff.h"
#include "ops/catalog.h"
#include "ops/kernel_spec.h"
#include "ops/op.h"

namespace xrun::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TensorType numbers_type(int64_t classes, int64_t length) {
  return {.dtype = DType::kI32, .dims = {kBatch, length}, .classes = classes};
}

Attrs bag(int64_t rows, int64_t dim, bool mean, int64_t padding) {
  return {{"rows", rows}, {"dim", dim}, {"mean", mean}, {"padding", padding}};
}

// A call on numbers of 0..4 in samples of three, with its gradient, in row blocks of two samples.
struct Bags {
  Graph graph;
  NodeId node;
  std::vector<float> table{0, 0, 1, 10, 2, 20, 3, 30, 4, 40};  // row r is (r, 10 r)

  Bags(bool mean, int64_t padding) {
    const ValueId x = graph.add_input("x", numbers_type(5, 3));
    node = *call_op(graph, find_op("embed_bag")->def, {x}, bag(5, 2, mean, padding), "bag", Span{});
    const ValueId dy = graph.add_input("dy", graph.value(graph.node(node).outputs[0]).type);
    GradBuilder builder(graph, registry(), node, {dy}, {false, true});
    EXPECT_TRUE(find_op("embed_bag")->def.grad(builder).ok());
  }

  Result<std::vector<float>> forward(std::vector<int32_t> numbers) {
    std::vector<float> y(4, NAN);
    XRUN_TRY(run(graph.node(node), numbers, table, y));
    return y;
  }
  Result<std::vector<float>> backward(std::vector<int32_t> numbers, std::vector<float> dy) {
    std::vector<float> sums(10);
    XRUN_TRY(run(graph.nodes.back(), numbers, dy, sums));
    return sums;
  }

 private:
  Status run(const Node& which, std::vector<int32_t>& numbers, std::vector<float>& second, std::vector<float>& result) {
    const auto view = [](auto& v) { return TensorView{reinterpret_cast<std::byte*>(v.data())}; };
    const auto kernel = make_kernel(graph, which, {.norm_rows = 2, .isa = detect_isa()});
    EXPECT_TRUE(kernel.ok()) << kernel.error().message;
    const std::array<TensorView, 2> in{view(numbers), view(second)};
    const std::array<TensorView, 1> out{view(result)};
    return (*kernel)->run({.inputs = in, .outputs = out});
  }
};

TEST(EmbedBag, AveragesTheRowsOfNumbersThatAreNotPadding) {
  Bags bags(true, 0);
  EXPECT_THAT(*bags.forward({1, 3, 0, 4, 4, 4}), ElementsAre(2, 20, 4, 40));
  EXPECT_THAT(*bags.forward({0, 0, 0, 0, 2, 0}), ElementsAre(0, 0, 2, 20));
}

TEST(EmbedBag, SumsThemWithoutMean) {
  Bags bags(false, 0);
  EXPECT_THAT(*bags.forward({1, 3, 0, 4, 4, 4}), ElementsAre(4, 40, 12, 120));
  Bags all(false, -1);
  all.table[0] = 7;
  EXPECT_THAT(*all.forward({0, 0, 1, 2, 2, 2}), ElementsAre(15, 10, 6, 60));
}

TEST(EmbedBag, OnlyRowsOfTheBatchHaveAGradient) {
  Bags sum(false, 0);
  EXPECT_THAT(*sum.backward({1, 3, 0, 3, 3, 0}, {1, 2, 10, 20}), ElementsAre(0, 0, 1, 2, 0, 0, 21, 42, 0, 0));
  Bags mean(true, 0);
  EXPECT_THAT(*mean.backward({1, 3, 0, 3, 3, 0}, {1, 2, 10, 20}), ElementsAre(0, 0, 0.5F, 1, 0, 0, 10.5F, 21, 0, 0));
  EXPECT_THAT(*mean.backward({0, 0, 0, 0, 0, 0}, {1, 2, 10, 20}), ::testing::Each(0));
}

TEST(EmbedBag, RejectsNumbersWithoutARow) {
  Bags bags(true, 0);
  for (const int32_t wrong : {5, -1}) {
    const auto y = bags.forward({1, 1, 1, 1, wrong, 1});
    ASSERT_FALSE(y.ok());
    EXPECT_EQ(y.error().code, "XG0402");
    EXPECT_THAT(y.error().message,
                HasSubstr("the number " + std::to_string(wrong) + " has no row in an `embed_bag` of 5"));
    EXPECT_FALSE(bags.backward({1, 1, 1, 1, wrong, 1}, {1, 1, 1, 1}).ok());
  }
}

TEST(EmbedBag, NeedsARowOfWholeNumbersAndARowForEach) {
  const OpDef& def = find_op("embed_bag")->def;
  const auto fault = [&](const TensorType& x, const Attrs& attrs) {
    const auto made = def.infer(std::vector{x}, attrs);
    return made.ok() ? "" : made.error().code + ": " + made.error().message;
  };
  EXPECT_EQ(fault(numbers_type(5, 3), bag(5, 2, true, 0)), "");
  EXPECT_EQ(fault(numbers_type(5, 3), bag(8, 2, true, -1)), "");
  EXPECT_THAT(fault({.dtype = DType::kF32, .dims = {kBatch, 3}}, bag(5, 2, true, 0)), HasSubstr("XG0302"));
  EXPECT_THAT(fault({.dtype = DType::kI32, .dims = {kBatch}, .classes = 5}, bag(5, 2, true, 0)), HasSubstr("XG0302"));
  EXPECT_THAT(fault(numbers_type(6, 3), bag(5, 2, true, 0)), HasSubstr("XG0301: `embed_bag` has rows=5 for index(6)"));
  EXPECT_THAT(fault(numbers_type(5, 3), bag(5, 2, true, 5)), HasSubstr("XG0303"));
  EXPECT_THAT(fault(numbers_type(5, 3), bag(5, 0, true, 0)), HasSubstr("XG0303"));
}

TEST(RowUpdates, AreThoseOfWeightsThatOnlyBagsRead) {
  Graph graph;
  const ValueId x = graph.add_input("x", numbers_type(10, 3));
  const NodeId alone = *call_op(graph, find_op("embed_bag")->def, {x}, bag(10, 2, true, 0), "alone", Span{});
  const ValueId id = graph.add_input("id", {.dtype = DType::kI32, .dims = {kBatch}, .classes = 10});
  const NodeId dense =
      *call_op(graph, find_op("embed")->def, {id}, {{"rows", int64_t{10}}, {"dim", int64_t{2}}}, "dense", Span{});
  const ValueId shared = graph.node(dense).inputs[1];
  call_op(graph, find_op("embed_bag")->def, {x}, bag(10, 2, true, 0), "both", Span{},
          std::vector<NamedValue>{{"weight", shared}})
      .value();
  const auto param_of = [&](NodeId node) { return graph.value(graph.node(node).inputs[1]).param; };
  EXPECT_THAT(params_updated_by_row(graph), ElementsAre(param_of(alone))) << "`embed` reads the other weight as well";
  EXPECT_DOUBLE_EQ(largest_updated_share(graph, param_of(alone), 2), 0.6);
  EXPECT_DOUBLE_EQ(largest_updated_share(graph, param_of(alone), 200), 1);
}

}  // namespace
}  // namespace xrun::ops
