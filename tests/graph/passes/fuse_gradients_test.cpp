// Element-wise gradients are fused with the sums after them into one operator: which gradients are fused, and that
// results keep their bits, including rounding.
#include <gtest/gtest.h>
#include <random>

#include "graph/passes/autodiff.h"
#include "graph/passes/passes.h"
#include "graph/print.h"
#include "ops/shape.h"
#include "tests/ops/graph_builder.h"

namespace xrun::ops {
namespace {

constexpr int64_t kRows = 6;

// Returns a graph with the loss of a classifier on `features` [N, D].
Graph trained(GraphBuilder& b, ValueId features) {
  b.classify(features);
  return b.graph;
}

Graph differentiated(const Graph& graph) {
  const Graph whole = differentiate(graph, registry(), {.row_weight = 1.0 / kRows}).value();
  return eliminate_dead_code(whole).value();
}

Graph fused(const Graph& graph) {
  return fuse_sums(fuse_maps(graph, registry(), Phase::kBackward).value(), registry()).value();
}

// Returns the backward operators that belong to forward operators named `op`, one per line.
std::string gradients_of(const Graph& graph, std::string_view op) {
  std::string text;
  for (const Node& node : graph.nodes) {
    if (node.phase == Phase::kBackward && graph.node(node.forward).op->name == op) {
      text += std::string(node.op->name) + " " + to_text(node.attrs) + "\n";
    }
  }
  return text;
}

TEST(FuseGradients, ASumOfGradientsIsFusedWithTheGradientOfRelu) {
  GraphBuilder b;
  const ValueId x = b.conv(b.input({3, 5, 5}), 4);
  const ValueId y = b.call("relu", {x});
  const ValueId z = b.call("add", {b.conv(y, 4), y});
  const Graph graph = differentiated(trained(b, b.call("global_avg_pool", {z})));
  EXPECT_EQ(gradients_of(graph, "relu"), "add \nrelu.grad \n");
  EXPECT_EQ(gradients_of(fused(graph), "relu"), "map y=\"select(0 < x0, x1 + x2, 0)\"\n");
}

TEST(FuseGradients, TheGradientOfABroadcastFactorIsOneOperator) {
  GraphBuilder b;
  const ValueId x = b.conv(b.input({3, 5, 5}), 4);
  const ValueId gate = b.call("reshape", {b.call("sigmoid", {b.call("global_avg_pool", {x})})},
                              {{"shape", std::vector<int64_t>{kBatch, 4, 1, 1}}});
  const Graph graph = differentiated(trained(b, b.call("global_avg_pool", {b.call("mul", {x, gate})})));
  EXPECT_EQ(gradients_of(graph, "mul"), "mul \nmul \nadd.sum dims=[-1, 4, 1, 1]\n");
  EXPECT_EQ(gradients_of(fused(graph), "mul"), "mul \nmap.sum dims0=[-1, 4, 1, 1], y=\"x0 * x1\"\n");
}

TEST(FuseGradients, AGradientWithAnotherReaderIsNotFused) {
  GraphBuilder b;
  const ValueId x = b.call("linear", {b.input({8})}, {{"out", int64_t{8}}, {"bias", true}});
  const ValueId gamma = b.graph.add_param("gamma", weight_type({8}), Init{}, true, false, Span{});
  const ValueId beta = b.graph.add_param("beta", weight_type({8}), Init{}, true, false, Span{});
  const Graph graph = differentiated(trained(b, b.call("add", {b.call("mul", {x, gamma}), beta})));
  const Graph made = fused(graph);
  EXPECT_EQ(gradients_of(made, "mul"), "mul \nmap.sum dims0=[8], y=\"x0 * x1\"\n");
  EXPECT_EQ(gradients_of(made, "add"), "param.sum dims=[8]\n") << "the gradient of the sum goes on to `mul`";
}

// A fused operator evaluates an expression instead of the kernels of its parts. Both must give the same results.
TEST(FuseGradients, ExpressionsGiveTheResultsOfTheKernels) {
  int checked = 0;
  for (const Op* const op : catalog()) {
    const bool takes_two = op->def.name.ends_with(".grad");
    if (!op->def.fuses || !takes_two) {
      continue;
    }
    SCOPED_TRACE(op->def.name);
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      GraphBuilder b;
      const ValueId kept = b.input({300}, dtype);
      const ValueId dy = b.input({300}, dtype);
      b.output(b.call(op->def.name, {kept, dy}));
      b.output(b.call("map", {kept, dy}, {{"y", op->def.expr({})}}));
      std::map<ValueId, Values> all{{kept, random_values(size_t{3} * 300, -3, 3, 1)},
                                    {dy, random_values(size_t{3} * 300, -1, 1, 2)}};
      all.at(kept)[0] = 0;
      const KernelOptions options{.norm_rows = 3, .training = true, .deterministic = true, .isa = detect_isa()};
      ASSERT_TRUE(run_graph(b.graph, {.kernel = options}, all).ok());
      const Values& wanted = all.at(b.graph.outputs[0].value);
      const Values& made = all.at(b.graph.outputs[1].value);
      for (size_t i = 0; i < wanted.size(); ++i) {
        ASSERT_TRUE(made[i] == wanted[i] || (std::isnan(made[i]) && std::isnan(wanted[i])))
            << made[i] << " and " << wanted[i] << " at " << i;
      }
    }
    ++checked;
  }
  EXPECT_EQ(checked, 7);
}

// Returns the gradients of all weights that a step computes.
std::vector<Values> gradients(const Graph& graph, bool compile) {
  std::map<ValueId, Values> all;
  for (const NamedValue& input : graph.inputs) {
    const TensorType& type = graph.value(input.value).type;
    const auto count = static_cast<size_t>(type.elements(kRows, kRows));
    all[input.value] = type.classes > 0 ? Values{0, 3, 1, 4, 2, 0} : random_values(count, -2, 2, 5);
  }
  for (size_t p = 0; p < graph.params.size(); ++p) {
    const TensorType& type = graph.value(graph.params[p].value).type;
    all[graph.params[p].value] = random_values(static_cast<size_t>(type.elements(0, 0)), -1, 1, 40 + p);
  }
  const KernelOptions options{
      .norm_rows = kRows, .training = true, .deterministic = true, .isa = detect_isa(), .compile = compile};
  const Status status = run_graph(graph, {.kernel = options}, all);
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
  std::vector<Values> results;
  for (const ValueId grad : graph.param_grads) {
    results.push_back(grad.valid() ? all.at(grad) : Values{});
  }
  return results;
}

// In random graphs of functions, broadcast operands and parameters, gradients keep their bits in f32 and in bf16.
TEST(FuseGradients, FusedGradientsHaveTheSameBits) {
  constexpr std::string_view kUnary[] = {"relu", "silu", "sigmoid", "tanh"};
  constexpr std::string_view kBinary[] = {"add", "sub", "mul"};
  int groups = 0;
  int sums = 0;
  for (uint32_t seed = 0; seed < 80; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const bool image = seed % 2 == 0;
    const int64_t width = std::vector<int64_t>{3, 16, 37, 130, 1280}[random() % 5];
    GraphBuilder b;
    const ValueId x =
        image ? b.conv(b.input({3, 7, 5}), width) : b.call("linear", {b.input({8})}, {{"out", width}, {"bias", true}});
    const auto gate = [&] {
      const ValueId pooled = image ? b.call("global_avg_pool", {x}) : x;
      const ValueId small = b.call("linear", {pooled}, {{"out", image ? width : 1}, {"bias", true}});
      return image ? b.call("reshape", {small}, {{"shape", std::vector<int64_t>{kBatch, width, 1, 1}}}) : small;
    };
    const auto param = [&] {
      const std::vector<int64_t> dims = image && random() % 2 == 0 ? std::vector<int64_t>{width, 1, 1}
                                        : image                    ? std::vector<int64_t>{5}
                                                                   : std::vector<int64_t>{width};
      return b.graph.add_param("p" + std::to_string(b.graph.params.size()), weight_type(dims), Init{}, true, false,
                               Span{});
    };
    std::vector<ValueId> values{x, x};
    for (int i = 0; i < 8; ++i) {
      const auto any = [&] { return values[values.size() - 1 - random() % std::min<size_t>(values.size(), 3)]; };
      const ValueId a = any();
      const ValueId other = random() % 3 == 0 ? gate() : random() % 2 == 0 ? param() : any();
      values.push_back(random() % 2 == 0 ? b.call(kUnary[random() % std::size(kUnary)], {a})
                                         : b.call("map", {a, other},
                                                  {{"y", kBinary[random() % 3] == "add"   ? "x0 + x1"
                                                         : kBinary[random() % 3] == "sub" ? "x0 * sigmoid(x1)"
                                                                                          : "x0 * x1"}}));
    }
    const ValueId last = b.call("add", {values.back(), values[values.size() - 2]});
    const Graph forward = trained(b, image ? b.call("global_avg_pool", {last}) : last);
    const Graph apart =
        differentiated(seed % 4 < 2 ? forward : mix_precision(forward, registry(), DType::kBF16).value());
    const Graph together = fused(apart);
    for (const Node& node : together.nodes) {
      sums += static_cast<int>(node.op->name == "map.sum");
    }
    groups += static_cast<int>(apart.nodes.size() - together.nodes.size());
    const std::vector<Values> wanted = gradients(apart, false);
    const std::vector<Values> results = gradients(together, seed % 3 == 0);
    ASSERT_EQ(results.size(), wanted.size());
    for (size_t p = 0; p < wanted.size(); ++p) {
      ASSERT_EQ(results[p].size(), wanted[p].size());
      for (size_t i = 0; i < wanted[p].size(); ++i) {
        ASSERT_TRUE(results[p][i] == wanted[p][i] || (std::isnan(results[p][i]) && std::isnan(wanted[p][i])))
            << apart.params[ParamId(p)].name << "[" << i << "]: " << results[p][i] << " and " << wanted[p][i] << "\n"
            << print(apart) << print(together);
      }
    }
  }
  EXPECT_GT(groups, 100) << "too few gradients were fused";
  EXPECT_GT(sums, 40) << "too few gradients are summed where they are computed";
}

}  // namespace
}  // namespace xrun::ops
