// Layouts that the pass assigns: the layout of each value, the places where tensors are reordered, and that values stay
// the same.
#include <gtest/gtest.h>
#include <random>

#include "graph/verify.h"
#include "tests/ops/glyphs_module.h"
#include "tests/ops/graph_builder.h"

namespace xrun::ops {
namespace {

Graph assigned(const Graph& graph) {
  auto made = assign_layouts(graph, registry());
  EXPECT_TRUE(made.ok() && verify(*made).ok());
  return std::move(made).value();
}

std::string operators_of(const Graph& graph) {
  std::string all;
  for (const Node& node : graph.nodes) {
    all += (all.empty() ? "" : " ") + std::string(node.op->name);
  }
  return all;
}

Attrs to_dims(std::vector<int64_t> dims) {
  dims.insert(dims.begin(), kBatch);
  return {{"shape", std::move(dims)}};
}

// Expects that every operand and result has the layout of the operator's rule. Values for which both layouts have the
// same order in memory are not checked.
void expect_rules(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    const LayoutRule rule = layout_rule(graph, node);
    std::optional<Layout> common;
    for (const auto* values : {&node.inputs, &node.outputs}) {
      for (const ValueId id : *values) {
        const TensorType& type = graph.value(id).type;
        EXPECT_TRUE(type.has_layouts() || type.layout == Layout::kRowMajor);
        if (rule == LayoutRule::kAny || !type.has_layouts() || type.dims[1] == 1 || type.dims[2] * type.dims[3] == 1) {
          continue;
        }
        const Layout wanted = rule == LayoutRule::kChannelsLast ? Layout::kChannelsLast
                              : rule == LayoutRule::kRowMajor   ? Layout::kRowMajor
                                                                : common.value_or(type.layout);
        EXPECT_EQ(type.layout, wanted) << node.op->name;
        common = type.layout;
      }
    }
  }
}

TEST(Layouts, ConvolutionsAndOperatorsBetweenThemAreChannelsLast) {
  GraphBuilder b;
  const ValueId x = b.conv(b.input({3, 6, 6}), 8);
  const ValueId gate = b.call("reshape", {b.call("sigmoid", {b.call("global_avg_pool", {x})})}, to_dims({8, 1, 1}));
  const ValueId y = b.call("add", {b.conv(b.call("relu", {b.call("mul", {x, gate})}), 8), x});
  b.output(b.call("max_pool", {y}, {{"k", int64_t{2}}, {"stride", int64_t{2}}, {"pad", int64_t{0}}}));
  const Graph graph = assigned(b.graph);
  expect_rules(graph);
  EXPECT_EQ(operators_of(graph), operators_of(b.graph));
  for (const Value& value : graph.values) {
    EXPECT_EQ(value.type.is_channels_last(), value.type.has_layouts());
  }
}

TEST(Layouts, OperatorsAlongTheLastDimensionAreRowMajor) {
  GraphBuilder b;
  const ValueId x = b.call("reshape", {b.input({12, 10})}, to_dims({3, 4, 10}));
  const ValueId y = b.call("softmax", {b.call("relu", {b.call("linear", {x}, {{"out", int64_t{6}}, {"bias", true}})})},
                           {{"axis", int64_t{-1}}});
  b.output(b.call("layer_norm", {y}, {{"eps", 1e-6}}));
  const Graph graph = assigned(b.graph);
  expect_rules(graph);
  EXPECT_EQ(operators_of(graph), "reshape linear relu softmax layer_norm");
}

// All readers share one reordered copy. No copy is made if both layouts have the same order in memory.
TEST(Layouts, TensorsAreReorderedIfTheirReadersNeedAnotherLayout) {
  GraphBuilder b;
  const ValueId x = b.conv(b.input({3, 6, 6}), 8);
  b.output(b.call("layer_norm", {x}, {{"eps", 1e-6}}));
  b.output(b.call("rms_norm", {x}, {{"eps", 1e-6}}));
  EXPECT_EQ(operators_of(assigned(b.graph)), "conv reorder layer_norm rms_norm");
  GraphBuilder flat;
  const ValueId one = flat.conv(flat.input({3, 6, 6}), 1);
  flat.output(flat.call("layer_norm", {one}, {{"eps", 1e-6}}));
  EXPECT_EQ(operators_of(assigned(flat.graph)), "conv layer_norm");
  GraphBuilder image;  // data readers feed images with channels last
  image.output(image.call("layer_norm", {image.input({3, 6, 6})}, {{"eps", 1e-6}}));
  EXPECT_EQ(operators_of(assigned(image.graph)), "reorder layer_norm");
  GraphBuilder sum;  // operands with different layouts: the reader decides
  const ValueId left = sum.conv(sum.input({3, 6, 6}), 8);
  const ValueId right = sum.call("layer_norm", {left}, {{"eps", 1e-6}});
  sum.output(sum.call("linear", {sum.call("add", {left, right})}, {{"out", int64_t{6}}, {"bias", true}}));
  EXPECT_EQ(operators_of(assigned(sum.graph)), "conv reorder layer_norm add linear");
}

// Returns a random differentiated graph of images, with operators of all layout rules.
Graph random_graph(std::mt19937& random) {
  GraphBuilder b;
  const auto pick = [&](size_t n) { return static_cast<size_t>(random() % n); };
  std::vector<ValueId> values{b.conv(b.input({3, 4, 5}), 8)};
  for (int i = 0; i < 8; ++i) {
    const ValueId x = values[pick(values.size())];
    const ValueId other = values[pick(values.size())];
    switch (pick(9)) {
      case 0:
        values.push_back(b.call("relu", {x}));
        break;
      case 1:
        values.push_back(b.call("add", {x, other}));
        break;
      case 2:
        values.push_back(b.call("mul", {x, b.call("mean", {other}, {{"axis", int64_t{2}}, {"keep", true}})}));
        break;
      case 3:
        values.push_back(b.conv(x, 8));
        break;
      case 4:
        values.push_back(b.call("layer_norm", {x}, {{"eps", 1e-3}}));
        break;
      case 5:
        values.push_back(b.call("linear", {x}, {{"out", int64_t{5}}, {"bias", true}}));
        break;
      case 6: {
        const Attrs axes{{"a", int64_t{1}}, {"b", int64_t{3}}};
        const ValueId turned = b.call("layer_norm", {b.call("transpose", {x}, axes)}, {{"eps", 1e-3}});
        values.push_back(b.call("transpose", {turned}, axes));
        break;
      }
      case 7:
        values.push_back(b.call("softmax", {x}, {{"axis", static_cast<int64_t>(1 + pick(3))}}));
        break;
      default:
        values.push_back(b.call("reshape", {b.call("reshape", {x}, to_dims({20, 8}))}, to_dims({8, 4, 5})));
    }
  }
  ValueId all = values.back();
  for (const ValueId value : values) {
    all = b.call("add", {all, value});
  }
  b.classify(b.call("flatten", {all}, {{"from", int64_t{1}}}));
  auto made = differentiate(std::move(b.graph), registry(), {});
  EXPECT_TRUE(made.ok());
  return std::move(made).value();
}

TEST(Layouts, AssigningLayoutsKeepsValuesAndGradients) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const Graph apart = random_graph(random);
    const Graph graph = assigned(apart);
    expect_rules(graph);
    const RunOptions options{.kernel = {.norm_rows = 3, .training = true, .deterministic = true, .isa = detect_isa()}};
    const auto results = [&](const Graph& of) {
      std::map<ValueId, Values> values;
      for (size_t i = 0; i < of.values.size(); ++i) {
        const Value& value = of.values[i];
        if (!value.producer.valid()) {
          const auto count = static_cast<size_t>(value.type.elements(3, 3));
          // The pass renumbers values but keeps their positions, so seeds are positions.
          values[ValueId(i)] =
              value.type.classes > 0 ? Values(count, 1) : random_values(count, -0.5, 0.5, values.size());
        }
      }
      const Status status = run_graph(of, options, values);
      EXPECT_TRUE(status.ok());
      std::vector<Values> all{values.at(of.outputs[0].value)};
      for (const ValueId grad : of.param_grads) {
        all.push_back(grad.valid() ? values.at(grad) : Values());
      }
      return all;
    };
    const auto wanted = results(apart);
    const auto got = results(graph);
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!wanted[i].empty() && norm(wanted[i]) > 1e-12) {
        EXPECT_LT(relative_distance(got[i], wanted[i]), 2e-5) << i;
      }
    }
  }
}

// Dropout draws in the order of the memory, so its gradient must have the layout of its result.
TEST(Layouts, TheGradientOfDropoutHasTheLayoutOfItsResult) {
  GraphBuilder b;
  const ValueId x = b.call("reshape", {b.input({12, 10})}, to_dims({3, 4, 10}));
  const ValueId y = b.call("dropout", {b.call("layer_norm", {x}, {{"eps", 1e-6}})}, {{"p", 0.5}});
  b.classify(b.call("global_avg_pool", {b.conv(y, 8)}));
  const Graph graph = assigned(differentiate(std::move(b.graph), registry(), {}).value());
  expect_rules(graph);
  int found = 0;
  for (const Node& node : graph.nodes) {
    if (node.op->name == "dropout") {
      EXPECT_EQ(graph.value(node.outputs[0]).type.layout, Layout::kRowMajor);
      ++found;
    }
  }
  EXPECT_EQ(found, 2);
}

}  // namespace
}  // namespace xrun::ops
