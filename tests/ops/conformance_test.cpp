// Every operator of the catalog, unasked: types against infer, gradients against differences, bf16 against f32,
// split-by-rule against whole, addresses without influence.
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <set>

#include "graph/shard_rule.h"
#include "tests/ops/cases.h"
#include "tests/ops/op_runner.h"

namespace xrun::ops {
namespace {

// A graph of one call with its gradients, and what feeds it.
struct Built {
  Graph graph;
  NodeId node;
  std::vector<ValueId> output_grads;
  std::vector<ValueId> grads;  // per input of the node; invalid where there is none
  std::map<ValueId, Values> values;
};

TensorType input_type(const Case& c, size_t i, DType dtype) {
  TensorType type;
  type.dtype = dtype;
  type.dims = {kBatch};
  type.dims.insert(type.dims.end(), c.inputs[i].begin(), c.inputs[i].end());
  return type;
}

Result<Built> build(const Case& c, DType dtype, bool backward) {
  Built b;
  const Op* op = find_op(c.op);
  XRUN_CHECK(op != nullptr, c.op);
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    inputs.push_back(b.graph.add_input("x" + std::to_string(i), input_type(c, i, dtype)));
  }
  XRUN_ASSIGN(b.node, call_op(b.graph, op->def, inputs, c.attrs, "op", Span{}));
  const std::vector<ValueId> all = b.graph.node(b.node).inputs;
  for (size_t i = 0; i < all.size(); ++i) {
    const TensorType& type = b.graph.value(all[i]).type;
    const bool data = i < c.inputs.size();
    b.values[all[i]] = random_values(static_cast<size_t>(type.elements(c.rows, c.rows)), data ? c.low : 0.5,
                                     data ? c.high : 1.5, 100 + i);
  }
  if (!backward || op->def.grad == nullptr) {
    return b;
  }
  std::vector<ValueId> output_grads;
  for (size_t i = 0; i < b.graph.node(b.node).outputs.size(); ++i) {
    if (static_cast<int>(i) >= op->def.visible_outputs) {
      output_grads.emplace_back();
      continue;
    }
    const TensorType type = b.graph.value(b.graph.node(b.node).outputs[i]).type;
    const ValueId dy = b.graph.add_input("dy" + std::to_string(i), type);
    b.values[dy] = random_values(static_cast<size_t>(type.elements(c.rows, c.rows)), -1, 1, 200 + i);
    output_grads.push_back(dy);
  }
  b.output_grads = output_grads;
  std::vector<bool> wanted(all.size(), false);
  for (size_t i = 0; i < all.size(); ++i) {
    const ParamId param = b.graph.value(all[i]).param;
    wanted[i] = !param.valid() || b.graph.param(param).trained;
  }
  GradBuilder builder(b.graph, registry(), b.node, output_grads, wanted);
  XRUN_TRY(op->def.grad(builder));
  b.grads = builder.grads();
  return b;
}

RunOptions options_for(const Case& c) {
  return {.kernel = {.block_rows = c.rows, .training = true, .deterministic = true, .isa = detect_isa()}};
}

class Conformance : public testing::TestWithParam<Case> {};

std::string case_name(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.op + "_" + std::to_string(info.index);
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

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

// The half `part` of a tensor in logical order, cut along dimension `d`.
Values half_of(const Values& whole, const std::vector<int64_t>& dims, size_t d, int part) {
  int64_t inner = 1;
  for (size_t i = d + 1; i < dims.size(); ++i) {
    inner *= dims[i];
  }
  const int64_t half = dims[d] / 2;
  Values out;
  for (size_t i = 0; i < whole.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i) / inner % dims[d];
    if (at / half == part) {
      out.push_back(whole[i]);
    }
  }
  return out;
}

TEST_P(Conformance, PartsSplitByTheShardRuleCombineToTheWhole) {
  const Case& c = GetParam();
  auto b = build(c, DType::kF32, false);
  ASSERT_TRUE(b.ok());
  const Node& node = b->graph.node(b->node);
  if (node.op->shard.empty() || node.op->random) {
    GTEST_SKIP() << "stays whole but for the batch";
  }
  std::vector<int> input_ranks;
  std::vector<int> output_ranks;
  for (const ValueId id : node.inputs) {
    input_ranks.push_back(b->graph.value(id).type.rank());
  }
  for (const ValueId id : node.outputs) {
    output_ranks.push_back(b->graph.value(id).type.rank());
  }
  const auto rule = parse_shard_rule(node.op->shard, input_ranks, output_ranks);
  if (!rule.ok()) {
    GTEST_SKIP() << "the rule is of the form without a bias";
  }
  auto whole = b->values;
  ASSERT_TRUE(run_graph(b->graph, options_for(c), whole).ok());
  for (const Factor& factor : rule->factors) {
    Graph part_graph = b->graph;
    std::array<std::map<ValueId, Values>, 2> parts;
    int64_t rows = c.rows;
    bool even = true;
    const auto cut = [&](ValueId id, const std::string& letters, bool input) {
      TensorType& type = part_graph.value(id).type;
      const size_t d = letters.find(factor.letter);
      const std::vector<int64_t> dims = block_dims(b->graph.value(id).type, c.rows);
      for (size_t p = 0; input && p < 2; ++p) {
        parts[p][id] =
            d == std::string::npos ? b->values.at(id) : half_of(b->values.at(id), dims, d, static_cast<int>(p));
      }
      if (d != std::string::npos) {
        even = even && dims[d] % 2 == 0;
        rows = d == 0 && type.has_batch() ? c.rows / 2 : rows;
        type.dims[d] = type.dims[d] > 0 ? type.dims[d] / 2 : type.dims[d];
      }
    };
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      cut(node.inputs[i], rule->inputs[i], true);
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      cut(node.outputs[i], rule->outputs[i], false);
    }
    if (!even) {
      continue;
    }
    RunOptions options = options_for(c);
    options.kernel.block_rows = rows;
    for (auto& part : parts) {
      const Status status = run_graph(part_graph, options, part);
      ASSERT_TRUE(status.ok()) << status.error().message;
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const size_t d = rule->outputs[i].find(factor.letter);
      const Values& all = whole.at(node.outputs[i]);
      if (d == std::string::npos) {
        Values sum = parts[0].at(node.outputs[i]);
        for (size_t e = 0; e < sum.size(); ++e) {
          sum[e] += parts[1].at(node.outputs[i])[e];
        }
        EXPECT_LT(relative_distance(sum, all), 1e-5) << "sum over " << factor.letter;
      } else {
        const std::vector<int64_t> dims = block_dims(b->graph.value(node.outputs[i]).type, c.rows);
        for (int p = 0; p < 2; ++p) {
          EXPECT_LT(relative_distance(parts[static_cast<size_t>(p)].at(node.outputs[i]), half_of(all, dims, d, p)),
                    1e-5)
              << "part " << p << " of " << factor.letter;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Catalog, Conformance, testing::ValuesIn(conformance_cases()), case_name);

TEST(Catalog, EveryOperatorThatRunsHasAConformanceCase) {
  std::set<std::string> covered;
  for (const Case& c : conformance_cases()) {
    covered.insert(c.op);
  }
  for (const Op* op : catalog()) {
    const bool backward = op->def.name.find('.') != std::string_view::npos;
    if (op->cpu != nullptr && !backward && !is_exempt(op->def.name)) {
      EXPECT_TRUE(covered.contains(std::string(op->def.name))) << op->def.name;
    }
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
