// Fusion of element-wise operators: which operators are fused, and that results keep their bits, including rounding.
#include <cstring>
#include <gtest/gtest.h>
#include <random>

#include "graph/passes/autodiff.h"
#include "graph/passes/passes.h"
#include "graph/print.h"
#include "graph/types/scalar_expr.h"
#include "tests/ops/graph_builder.h"

namespace xrun::ops {
namespace {

Graph fused(const Graph& graph) { return fuse_maps(graph, registry(), Phase::kForward).value(); }

TEST(FuseMaps, AChainOfMapsBecomesOneNode) {
  GraphBuilder b;
  const ValueId x = b.input({8});
  const ValueId gate = b.call("silu", {x});
  const ValueId scaled = b.call("scale_shift", {gate}, {{"scale", 2.0}});
  b.output(b.call("mul", {scaled, b.input({8})}));
  EXPECT_EQ(print(fused(b.graph)), R"(input %0 x0: f32[N, 8]
input %1 x1: f32[N, 8]
#0 %2: f32[N, 8] = map(%0, %1) {y="x0 * sigmoid(x0) * 2 * x1"} @mul2
output y0 %2
)");
}

// Results that are read twice, are an output, or have another shape are not fused, nor is a sum of three, which would
// keep three tensors in memory instead of two.
TEST(FuseMaps, OtherMapsAreNotFused) {
  GraphBuilder b;
  const ValueId x = b.input({8});
  const ValueId twice = b.call("exp", {x});
  b.output(b.call("add", {b.call("neg", {twice}), b.call("tanh", {twice})}));
  const ValueId held = b.call("exp", {b.input({8})});
  b.output(held);
  b.output(b.call("neg", {held}));
  const ValueId small = b.call("sigmoid", {b.input({1})});
  b.output(b.call("mul", {b.input({8}), small}));
  b.output(b.call("add", {b.call("add", {b.input({8}), b.input({8})}), b.input({8})}));
  const std::string text = print(fused(b.graph));
  EXPECT_EQ(text.find("map", text.find("map") + 1), std::string::npos) << text;
  EXPECT_NE(text.find("{y=\"-x0 + tanh(x0)\"}"), std::string::npos) << text;
}

TEST(FuseMaps, FunctionsFusedFromLongChainsAreBounded) {
  GraphBuilder b;
  ValueId x = b.input({4});
  for (int i = 0; i < 300; ++i) {
    x = b.call(i % 2 == 0 ? "mul" : "add", {x, x});
  }
  b.output(x);
  const Graph made = fused(b.graph);
  EXPECT_GE(made.nodes.size(), 300U / 64);
  EXPECT_LE(made.nodes.size(), 300U / 64 + 2);
}

// A relu turns an infinite gradient into 0, also if it is a part of a fused expression.
TEST(FuseMaps, TheRootOfAReluHasAFiniteGradient) {
  GraphBuilder b;
  const ValueId root = b.call("sqrt", {b.call("relu", {b.input({8})})});
  b.output(b.call("scale_shift", {root}, {{"scale", 2.0}}));
  const Graph made = fused(b.graph);
  ASSERT_EQ(made.nodes.size(), 2U) << print(made);
  EXPECT_EQ(made.nodes[0].op->name, "relu");
  const int wanted[] = {0};
  const ScalarExpr gradient =
      gradient_of(*parse_scalar_expr("sqrt(max(x0, 0)) * 3 + acos(select(x0 < 1, x0, 1))"), 1, wanted);
  for (const double x : {-1.0, 0.0}) {
    const double values[] = {x, 1.0};
    EXPECT_FALSE(std::isnan(evaluate(gradient, values)[0])) << x << ": " << to_text(gradient);
  }
  const double infinite[] = {-1.0, INFINITY};
  EXPECT_EQ(evaluate(gradient_of(*parse_scalar_expr("max(x0, 0) * 2"), 1, wanted), infinite)[0], 0);
}

TEST(FuseMaps, LargeFunctionsAreNotFused) {
  GraphBuilder b;
  ScalarExpr large;
  ScalarId at = large.input(0);
  for (int i = 0; i < 1500; ++i) {
    at = large.make(ScalarOp::kSin, large.make(ScalarOp::kMul, at, large.constant(0.5)));
  }
  large.set_results({at});
  ValueId x = b.input({4});
  for (int i = 0; i < 3; ++i) {
    x = b.call("map", {x}, {{"y", to_text(large)}});
  }
  b.output(x);
  EXPECT_EQ(fused(b.graph).nodes.size(), 3U);
}

// Random graphs give the same bits with and without fusion, in f32 and if each result is rounded to bf16.
TEST(FuseMaps, FusedMapsHaveTheSameBits) {
  constexpr std::string_view kUnary[] = {"relu", "silu", "sigmoid", "tanh", "exp", "abs", "neg", "erf", "sin"};
  constexpr std::string_view kBinary[] = {"add", "sub", "mul", "div"};
  int groups = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const DType dtype = seed % 2 == 0 ? DType::kF32 : DType::kBF16;
    GraphBuilder b;
    std::vector<ValueId> values{b.input({37}, dtype), b.input({37}, dtype), b.input({1}, dtype)};
    for (int i = 0; i < 14; ++i) {
      const auto any = [&] { return values[values.size() - 1 - random() % std::min<size_t>(values.size(), 3)]; };
      values.push_back(random() % 2 == 0 ? b.call(kUnary[random() % std::size(kUnary)], {any()})
                                         : b.call(kBinary[random() % std::size(kBinary)], {any(), any()}));
    }
    b.output(values.back());
    const Graph other = fused(b.graph);
    groups += static_cast<int>(other.nodes.size() < b.graph.nodes.size());
    const auto run = [&](const Graph& graph) {
      std::map<ValueId, Values> all;
      for (size_t i = 0; i < graph.inputs.size(); ++i) {
        const TensorType& type = graph.value(graph.inputs[i].value).type;
        all[graph.inputs[i].value] = random_values(static_cast<size_t>(type.elements(3, 3)), -2, 2, i + 1);
      }
      const KernelOptions options{
          .norm_rows = 3, .training = true, .deterministic = true, .isa = detect_isa(), .compile = seed % 3 == 0};
      const Status status = run_graph(graph, {.kernel = options}, all);
      EXPECT_TRUE(status.ok()) << status.error().message;
      return all.at(graph.outputs[0].value);
    };
    const Values a = run(b.graph);
    const Values c = run(other);
    ASSERT_EQ(a.size(), c.size());
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_TRUE(a[i] == c[i] || (std::isnan(a[i]) && std::isnan(c[i])))
          << a[i] << " and " << c[i] << " at " << i << "\n"
          << print(b.graph) << print(other);
    }
  }
  EXPECT_GT(groups, 30) << "too few graphs had a group";
}

}  // namespace
}  // namespace xrun::ops
