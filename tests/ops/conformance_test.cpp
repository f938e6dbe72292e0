// Tests every operator of the catalog automatically: types against infer, values and gradients against formulas in f64,
// bf16 against f32, and independence of addresses. shard_test.cpp compares parts by shard rule with the whole call.
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <set>

#include "graph/types/scalar_expr.h"
#include "tests/ops/case_graph.h"
#include "tests/support/formulas.h"

namespace xrun::ops {
namespace {

class Conformance : public testing::TestWithParam<Case> {};

TEST_P(Conformance, WritesEveryElementOfTheTypesThatInferGives) {
  auto b = build(GetParam(), DType::kF32, true);
  ASSERT_TRUE(b.ok()) << b.error().message;
  const Status status = run_graph(b->graph, options_for(GetParam()), b->values);
  ASSERT_TRUE(status.ok()) << status.error().message;
  // Outputs were filled with NaN. A NaN that is left means that a kernel wrote less than infer declares.
  for (const Node& node : b->graph.nodes) {
    for (const ValueId id : node.outputs) {
      const Values& values = b->values.at(id);
      EXPECT_TRUE(std::none_of(values.begin(), values.end(), [](double v) { return std::isnan(v); })) << node.op->name;
    }
  }
}

// Returns the first output by its formula, with the seed and step that run_graph passes to kernels.
Values formula_of(const Graph& graph, const Node& node, const std::map<ValueId, Values>& values, int64_t rows) {
  const auto dims = [&](ValueId id) { return block_dims(graph.value(id).type, rows); };
  test::FormulaCall call{.op = node.op->name,
                         .attrs = node.attrs,
                         .in = {},
                         .out = dims(node.outputs[0]),
                         .path = node.path,
                         .seed = 7,
                         .step = 3};
  for (const ValueId id : node.inputs) {
    call.in.push_back({dims(id), values.at(id)});
  }
  return test::evaluate(call);
}

TEST_P(Conformance, AgreesWithItsFormulaInF64) {
  const Case& c = GetParam();
  auto b = build(c, DType::kF32, false);
  ASSERT_TRUE(b.ok()) << b.error().message;
  const Node& node = b->graph.node(b->node);
  ASSERT_TRUE(test::has_formula(c.op)) << "tests/support/formulas.cpp has none";
  ASSERT_EQ(node.op->visible_outputs, 1) << "a formula gives one output";
  const Values wanted = formula_of(b->graph, node, b->values, c.rows);
  ASSERT_TRUE(run_graph(b->graph, options_for(c), b->values).ok());
  EXPECT_LT(relative_distance(b->values.at(node.outputs[0]), wanted), 5e-6);
}

// Gradients of the f32 kernels are compared with slopes, which are differences of the formula in f64. These are good to
// about ten digits, so the bound only covers the rounding of the kernels.
TEST_P(Conformance, GradientIsTheSlopeOfTheFormulaAlongRandomDirections) {
  const Case& c = GetParam();
  auto b = build(c, DType::kF32, true);
  ASSERT_TRUE(b.ok()) << b.error().message;
  if (b->grads.empty()) {
    GTEST_SKIP() << "no gradient";
  }
  ASSERT_TRUE(test::has_formula(c.op));
  const Graph graph = build(c, DType::kF32, false)->graph;
  const Node& node = graph.node(b->node);
  std::map<ValueId, Values> at = b->values;
  ASSERT_TRUE(run_graph(b->graph, options_for(c), at).ok());
  constexpr double kStep = 1e-5;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!b->grads[i].valid()) {
      continue;
    }
    const Values& grad = at.at(b->grads[i]);
    for (uint64_t direction = 0; direction < 3; ++direction) {
      const Values v = random_values(grad.size(), -1, 1, 300 + direction);
      const auto objective = [&](double step) {
        std::map<ValueId, Values> values = b->values;
        for (size_t e = 0; e < v.size(); ++e) {
          values.at(node.inputs[i])[e] += step * v[e];
        }
        return dot(b->values.at(b->output_grads[0]), formula_of(graph, node, values, c.rows));
      };
      const double slope = (objective(kStep) - objective(-kStep)) / (2 * kStep);
      const double scale = norm(grad) * norm(v) / std::sqrt(static_cast<double>(v.size())) + 1e-6;
      EXPECT_NEAR(dot(grad, v), slope, 2e-5 * scale) << "input " << i;
    }
  }
}

// Compares the kernels of a narrow type with those of f32 on numbers that the narrow type has. `bound`: the largest
// distance if the operator is smooth.
void expect_near_f32(const Case& c, DType narrow, double bound) {
  if (c.op == "cast" || find_op(c.op)->def.precision == PrecisionRule::kWide) {
    GTEST_SKIP() << "always f32";
  }
  auto wide = build(c, DType::kF32, true);
  auto slim = build(c, narrow, true);
  ASSERT_TRUE(wide.ok() && slim.ok());
  for (auto& [id, values] : wide->values) {
    for (double& v : values) {
      v = apply(narrow == DType::kF16 ? ScalarOp::kF16 : ScalarOp::kBf16, v);
    }
  }
  slim->values = wide->values;
  ASSERT_TRUE(run_graph(wide->graph, options_for(c), wide->values).ok());
  const Status status = run_graph(slim->graph, options_for(c), slim->values);
  ASSERT_TRUE(status.ok()) << status.error().message;
  ASSERT_EQ(wide->graph.nodes.size(), slim->graph.nodes.size());
  for (size_t i = 0; i < wide->graph.nodes.size(); ++i) {
    for (size_t o = 0; o < wide->graph.nodes[i].outputs.size(); ++o) {
      const ValueId id = wide->graph.nodes[i].outputs[o];
      EXPECT_LT(relative_distance(slim->values.at(id), wide->values.at(id)), c.smooth ? bound : 4 * bound)
          << wide->graph.nodes[i].op->name;
    }
  }
}

TEST_P(Conformance, Bf16StaysNearF32) { expect_near_f32(GetParam(), DType::kBF16, 2e-2); }

TEST_P(Conformance, F16StaysNearF32) { expect_near_f32(GetParam(), DType::kF16, 2.5e-3); }

TEST_P(Conformance, BitsDoNotDependOnAddresses) {
  const bool wide = find_op(GetParam().op)->def.precision == PrecisionRule::kWide;
  for (const DType dtype : {DType::kF32, wide ? DType::kF32 : DType::kBF16, wide ? DType::kF32 : DType::kF16}) {
    auto a = build(GetParam(), dtype, true);
    auto b = build(GetParam(), dtype, true);
    ASSERT_TRUE(a.ok() && b.ok());
    RunOptions options = options_for(GetParam());
    ASSERT_TRUE(run_graph(a->graph, options, a->values).ok());
    options.offset = 64;
    ASSERT_TRUE(run_graph(b->graph, options, b->values).ok());
    EXPECT_EQ(a->values, b->values);
  }
}

TEST_P(Conformance, BitsDoNotDependOnParts) {
  const bool wide = find_op(GetParam().op)->def.precision == PrecisionRule::kWide;
  for (const DType dtype : {DType::kF32, wide ? DType::kF32 : DType::kBF16, wide ? DType::kF32 : DType::kF16}) {
    auto whole = build(GetParam(), dtype, true);
    ASSERT_TRUE(whole.ok());
    const RunOptions options = options_for(GetParam());
    const std::map<ValueId, Values> given = whole->values;
    ASSERT_TRUE(run_graph(whole->graph, options, whole->values).ok());
    for (const int64_t parts : {2, 3, 7, 64}) {
      std::map<ValueId, Values> values = given;
      RunOptions cut = options;
      cut.parts = parts;
      ASSERT_TRUE(run_graph(whole->graph, cut, values).ok());
      EXPECT_EQ(values, whole->values) << parts;
    }
  }
}

// With another layout, sums may have another order. Operators with random draws are left out, since they draw in the
// order of the memory.
TEST_P(Conformance, ValuesDoNotDependOnLayouts) {
  const Case& c = GetParam();
  auto one = build(c, DType::kF32, true);
  ASSERT_TRUE(one.ok());
  const auto may_differ = [](const Value& value) { return value.type.has_layouts(); };
  if (find_op(c.op)->def.random || std::ranges::none_of(one->graph.values, may_differ)) {
    GTEST_SKIP() << "has one layout";
  }
  std::map<ValueId, Values> other = one->values;
  RunOptions options = options_for(c);
  ASSERT_TRUE(run_graph(one->graph, options, one->values).ok());
  options.layout = Layout::kRowMajor;
  ASSERT_TRUE(run_graph(one->graph, options, other).ok());
  for (const auto& [id, values] : one->values) {
    EXPECT_LT(relative_distance(other.at(id), values), 1e-6) << id.index;
  }
}

INSTANTIATE_TEST_SUITE_P(Catalog, Conformance, testing::ValuesIn(conformance_cases()), case_name);

TEST(Catalog, EveryOperatorThatRunsHasAConformanceCase) {
  std::set<std::string_view> covered;
  for (const Case& c : conformance_cases()) {
    const auto b = build(c, DType::kF32, true);
    ASSERT_TRUE(b.ok()) << c.op << ": " << b.error().message;
    for (const Node& node : b->graph.nodes) {
      covered.insert(node.op->name);
    }
  }
  for (const Op* op : catalog()) {
    EXPECT_TRUE(op->cpu == nullptr || covered.contains(op->def.name)) << op->def.name;
  }
}

TEST(Catalog, NamesAreUniqueAndDocumented) {
  std::set<std::string_view> names;
  for (const Op* op : catalog()) {
    EXPECT_TRUE(names.insert(op->def.name).second) << op->def.name;
    EXPECT_FALSE(op->def.doc.empty()) << op->def.name;
    EXPECT_FALSE(op->def.group.empty()) << op->def.name;
    EXPECT_NE(op->def.infer, nullptr) << op->def.name;
    EXPECT_EQ(op->def.signature.substr(0, 1), "(") << op->def.name;
    EXPECT_EQ(find_op(op->def.name), op);
    EXPECT_EQ(registry().find(op->def.name), &op->def);
  }
}

}  // namespace
}  // namespace xrun::ops
