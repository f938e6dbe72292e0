// Parts of a kernel call have the bits of the whole call (docs/internals/determinism.md, "Parts of a row block"), for
// shapes that models have. conformance_test.cpp tests small shapes of every operator.
#include "ops/parts.h"

#include <gtest/gtest.h>

#include "tests/ops/glyphs_module.h"
#include "tests/ops/op_runner.h"
#include "tests/support/isas.h"

namespace xrun::ops {
namespace {

std::map<ValueId, Values> random_inputs(const Graph& graph, int64_t rows) {
  std::map<ValueId, Values> values;
  const auto add = [&](ValueId id, double low, double high) {
    const size_t n = memory_order(graph.value(id).type, rows).size();
    values[id] = random_values(n, low, high, static_cast<uint64_t>(id.index) + 1);
  };
  for (const auto& input : graph.inputs) {
    add(input.value, 0, graph.value(input.value).type.dtype == DType::kI32 ? 100 : 1);
  }
  for (const auto& parameter : graph.params) {
    add(parameter.value, -0.1, 0.2);
  }
  return values;
}

TEST(Parts, HaveTheBitsOfTheWholeGlyphBackbone) {
  constexpr int64_t kRows = 16;
  for (const PrecisionMode precision : {PrecisionMode::kF32, PrecisionMode::kMixedBf16, PrecisionMode::kMixedF16}) {
    const Module module = glyphs_module(kRows, 100, precision).value();
    const std::map<ValueId, Values> inputs = random_inputs(module.graph, kRows);
    for (const Isa isa : all_isas()) {
      RunOptions options{.kernel = {.norm_rows = kRows, .deterministic = false, .isa = isa}};
      std::map<ValueId, Values> whole = inputs;
      ASSERT_TRUE(run_graph(module.graph, options, whole).ok());
      for (const int64_t parts : {3, 16}) {
        options.parts = parts;
        std::map<ValueId, Values> cut = inputs;
        ASSERT_TRUE(run_graph(module.graph, options, cut).ok());
        for (const auto& [id, values] : whole) {
          EXPECT_TRUE(cut.at(id) == values)
              << name_of(isa) << ", " << parts << " parts: " << module.graph.value(id).name;
        }
      }
    }
  }
}

// Parts of weight gradients use primitives of their own, which must add in the order of the whole call.
TEST(Parts, HaveTheBitsOfTheWholeWeightGradient) {
  struct Shape {
    int64_t rows, channels, pixels, outputs, window, stride;
  };
  const std::vector<Shape> convs{{32, 3, 56, 64, 7, 2},    {16, 64, 28, 64, 3, 1},   {16, 64, 28, 128, 3, 2},
                                 {16, 128, 28, 128, 3, 1}, {16, 128, 28, 128, 3, 2}, {16, 256, 14, 256, 3, 1},
                                 {16, 256, 14, 256, 3, 2}, {8, 512, 7, 512, 3, 1},   {64, 32, 8, 64, 5, 1}};
  int cut = 0;
  for (const Shape& s : convs) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      Graph graph;
      const ValueId x = graph.add_input("x", {dtype, {kBatch, s.channels, s.pixels, s.pixels}});
      const int64_t side = (s.pixels - 1) / s.stride + 1;
      const ValueId dy = graph.add_input("dy", {dtype, {kBatch, s.outputs, side, side}});
      const NodeId node = *call_op(graph, find_op("conv.dw")->def, {x, dy},
                                   {{"k", s.window},
                                    {"stride", s.stride},
                                    {"pad", s.window / 2},
                                    {"dilation", int64_t{1}},
                                    {"groups", int64_t{1}},
                                    {"height", s.pixels},
                                    {"width_in", s.pixels}},
                                   "dw", Span{});
      const std::map<ValueId, Values> inputs = random_inputs(graph, s.rows);
      for (const Isa isa : all_isas()) {
        RunOptions options{.kernel = {.norm_rows = s.rows, .deterministic = false, .isa = isa}};
        cut += (*make_kernel(graph, graph.node(node), options.kernel))->parts() > 1 ? 1 : 0;
        std::map<ValueId, Values> whole = inputs;
        ASSERT_TRUE(run_graph(graph, options, whole).ok());
        options.parts = 4;
        std::map<ValueId, Values> parts = inputs;
        ASSERT_TRUE(run_graph(graph, options, parts).ok());
        EXPECT_TRUE(parts == whole) << name_of(isa) << ": " << s.channels << " to " << s.outputs << " channels";
      }
    }
  }
  EXPECT_GE(cut, static_cast<int>(convs.size()));
}

}  // namespace
}  // namespace xrun::ops
