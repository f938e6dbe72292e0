// Every operator of the catalog, unasked: types against infer, gradients against differences, bf16 against f32,
// addresses without influence. Split by shard rule against whole: shard_test.cpp.
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <set>

#include "tests/ops/case_graph.h"

namespace xrun::ops {
namespace {

class Conformance : public testing::TestWithParam<Case> {};

TEST_P(Conformance, WritesEveryElementOfTheTypesThatInferGives) {
  auto b = build(GetParam(), DType::kF32, true);
  ASSERT_TRUE(b.ok()) << b.error().message;
  const Status status = run_graph(b->graph, options_for(GetParam()), b->values);
  ASSERT_TRUE(status.ok()) << status.error().message;
  // Outputs were filled with NaN: one that is left says that a kernel wrote less than infer promised.
  for (const Node& node : b->graph.nodes) {
    for (const ValueId id : node.outputs) {
      const Values& values = b->values.at(id);
      EXPECT_TRUE(std::none_of(values.begin(), values.end(), [](double v) { return std::isnan(v); })) << node.op->name;
    }
  }
}

TEST_P(Conformance, GradientIsTheSlopeAlongRandomDirections) {
  const Case& c = GetParam();
  auto b = build(c, DType::kF32, true);
  ASSERT_TRUE(b.ok()) << b.error().message;
  if (b->grads.empty()) {
    GTEST_SKIP() << "no gradient";
  }
  const RunOptions options = options_for(c);
  std::map<ValueId, Values> at = b->values;
  ASSERT_TRUE(run_graph(b->graph, options, at).ok());
  Built plain = *build(c, DType::kF32, false);
  const auto objective = [&](std::map<ValueId, Values> values) {
    EXPECT_TRUE(run_graph(plain.graph, options, values).ok());
    double sum = 0;
    for (size_t i = 0; i < b->output_grads.size(); ++i) {
      if (b->output_grads[i].valid()) {
        sum += dot(b->values.at(b->output_grads[i]), values.at(b->graph.node(b->node).outputs[i]));
      }
    }
    return sum;
  };
  const std::vector<ValueId> inputs = b->graph.node(b->node).inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!b->grads[i].valid()) {
      continue;
    }
    const Values& grad = at.at(b->grads[i]);
    for (uint64_t direction = 0; direction < 3; ++direction) {
      const Values v = random_values(grad.size(), -1, 1, 300 + direction);
      const double step = 4e-3;
      auto up = plain.values;
      auto down = plain.values;
      for (size_t e = 0; e < v.size(); ++e) {
        up.at(inputs[i])[e] += step * v[e];
        down.at(inputs[i])[e] -= step * v[e];
      }
      const double slope = (objective(up) - objective(down)) / (2 * step);
      const double scale = norm(grad) * norm(v) / std::sqrt(static_cast<double>(v.size())) + 1e-3;
      EXPECT_NEAR(dot(grad, v), slope, (c.smooth ? 5e-3 : 0.1) * scale) << "input " << i;
    }
  }
}

TEST_P(Conformance, Bf16StaysNearF32) {
  const Case& c = GetParam();
  if (c.op == "cast" || find_op(c.op)->def.precision == PrecisionRule::kWide) {
    GTEST_SKIP() << "always f32";
  }
  auto wide = build(c, DType::kF32, true);
  auto slim = build(c, DType::kBF16, true);
  ASSERT_TRUE(wide.ok() && slim.ok());
  for (auto& [id, values] : wide->values) {
    for (double& v : values) {
      v = static_cast<double>(to_float(to_bf16(static_cast<float>(v))));
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
      EXPECT_LT(relative_distance(slim->values.at(id), wide->values.at(id)), c.smooth ? 2e-2 : 8e-2)
          << wide->graph.nodes[i].op->name;
    }
  }
}

TEST_P(Conformance, BitsDoNotDependOnAddresses) {
  const bool wide = find_op(GetParam().op)->def.precision == PrecisionRule::kWide;
  for (const DType dtype : {DType::kF32, wide ? DType::kF32 : DType::kBF16}) {
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
