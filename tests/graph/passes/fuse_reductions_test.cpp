// A sum and a batch norm, and a function and its reduction, become one operator each: which are fused, and that results
// and gradients keep their bits, including rounding.
#include <gtest/gtest.h>

#include "graph/passes/autodiff.h"
#include "graph/passes/passes.h"
#include "graph/print.h"
#include "ops/shape.h"
#include "tests/ops/graph_builder.h"

namespace xrun::ops {
namespace {

constexpr int64_t kRows = 6;
const Attrs kNorm{{"momentum", 0.1}, {"eps", 1e-5}};

Attrs axis(int64_t axis, bool keep = false) { return {{"axis", axis}, {"keep", keep}}; }

std::string operators_of(const Graph& graph) {
  std::string names;
  for (const Node& node : graph.nodes) {
    names += (names.empty() ? "" : " ") + std::string(node.op->name);
  }
  return names;
}

// Expects that a graph and its fused form give the same bits: outputs and, if there is a loss, the gradients of all
// weights.
void expect_same_bits(const Graph& apart, const Graph& together, bool compile) {
  const auto results_of = [&](const Graph& graph) {
    const bool training = !graph.loss.empty();
    const Graph whole = training ? differentiate(graph, registry(), {.row_weight = 1.0 / kRows}).value() : graph;
    std::map<ValueId, Values> all;
    for (const NamedValue& input : whole.inputs) {
      const TensorType& type = whole.value(input.value).type;
      const auto count = static_cast<size_t>(type.elements(kRows, kRows));
      all[input.value] = type.classes > 0 ? Values{0, 3, 1, 4, 2, 0} : random_values(count, -2, 2, 5);
    }
    for (size_t p = 0; p < whole.params.size(); ++p) {
      const TensorType& type = whole.value(whole.params[p].value).type;
      all[whole.params[p].value] = random_values(static_cast<size_t>(type.elements(0, 0)), 0.1, 1, 40 + p);
    }
    const KernelOptions options{
        .norm_rows = kRows, .training = training, .deterministic = true, .isa = detect_isa(), .compile = compile};
    const Status status = run_graph(whole, {.kernel = options}, all);
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
    std::vector<Values> results;
    for (const NamedValue& output : whole.outputs) {
      results.push_back(all.at(output.value));
    }
    for (size_t p = 0; training && p < whole.params.size(); ++p) {
      if (whole.params[p].trained) {
        results.push_back(all.at(whole.param_grads[p]));
      }
    }
    return results;
  };
  const std::vector<Values> wanted = results_of(apart);
  const std::vector<Values> results = results_of(together);
  ASSERT_EQ(results.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_EQ(results[i], wanted[i]) << "result " << i << "\n" << print(apart) << print(together);
  }
}

Graph narrow(const Graph& graph, bool bf16) {
  return bf16 ? mix_precision(graph, registry(), DType::kBF16).value() : graph;
}

Graph with_residuals(const Graph& graph) { return fuse_residuals(fuse_elementwise(graph).value(), registry()).value(); }

TEST(FuseResiduals, ASumOfTwoNormsIsFusedWithTheLaterNorm) {
  GraphBuilder b;
  const ValueId x = b.input({8});
  const ValueId early = b.call("bn", {x}, kNorm);
  const ValueId late = b.call("bn", {b.call("exp", {x})}, kNorm);
  b.output(b.call("relu", {b.call("add", {late, early})}));
  const Graph graph = with_residuals(b.graph);
  ASSERT_EQ(operators_of(graph), "bn exp bn.add") << print(graph);
  const Node& node = graph.nodes[2];
  EXPECT_EQ(node.operands, 2);
  EXPECT_EQ(node.inputs[1], graph.nodes[0].outputs[0]);
  EXPECT_EQ(graph.param(graph.value(node.inputs[2]).param).name, "bn2.weight") << "the weights keep their names";
  EXPECT_EQ(node.fused_paths, (std::vector<std::string>{"add3", "relu4"}));
}

TEST(FuseResiduals, OtherSumsAreNotFused) {
  GraphBuilder twice;  // the norm has a second reader
  const ValueId norm = twice.call("bn", {twice.input({8})}, kNorm);
  twice.output(twice.call("mul", {twice.call("add", {norm, twice.input({8})}), norm}));
  EXPECT_EQ(operators_of(with_residuals(twice.graph)), "bn add mul");
  GraphBuilder behind;  // a relu is between the norm and the sum
  behind.output(
      behind.call("add", {behind.call("relu", {behind.call("bn", {behind.input({8})}, kNorm)}), behind.input({8})}));
  EXPECT_EQ(operators_of(with_residuals(behind.graph)), "bn add");
  GraphBuilder wide;  // one operand is broadcast
  wide.output(wide.call("add", {wide.call("bn", {wide.input({8})}, kNorm), wide.input({1})}));
  EXPECT_EQ(operators_of(with_residuals(wide.graph)), "bn add");
  GraphBuilder made_later;  // the other operand would have to be computed before the norm
  const ValueId image = made_later.input({8});
  const ValueId first = made_later.call("bn", {image}, kNorm);
  made_later.output(made_later.call("add", {first, made_later.call("exp", {image})}));
  EXPECT_EQ(operators_of(with_residuals(made_later.graph)), "bn exp add");
  GraphBuilder read;  // the norm is read between the two
  const ValueId z = read.input({8});
  const ValueId before = read.call("bn", {z}, kNorm);
  read.output(read.call("exp", {z}));
  read.output(read.call("add", {before, z}));
  EXPECT_EQ(operators_of(with_residuals(read.graph)), "bn exp add");
  GraphBuilder same;  // both operands are the same tensor
  const ValueId y = same.call("bn", {same.input({8})}, kNorm);
  same.output(same.call("add", {y, y}));
  EXPECT_EQ(operators_of(with_residuals(same.graph)), "bn add");
}

TEST(FuseResiduals, FusedSumsHaveTheSameBits) {
  for (const bool bf16 : {false, true}) {
    for (const int64_t channels : {3, 16, 37}) {
      for (const bool relu : {false, true}) {
        for (const bool training : {true, false}) {
          SCOPED_TRACE(std::to_string(channels) + " channels" + (relu ? ", relu" : "") +
                       (training ? ", training" : "") + (bf16 ? ", bf16" : ""));
          GraphBuilder b;
          const ValueId x = b.conv(b.input({3, 9, 9}), channels);
          ValueId y = b.call("add", {x, b.call("bn", {b.conv(x, channels)}, kNorm)});
          y = relu ? b.call("relu", {y}) : y;
          const ValueId pooled = b.call("global_avg_pool", {y});
          training ? b.classify(pooled) : b.output(pooled);
          const Graph apart = fuse_elementwise(narrow(b.graph, bf16)).value();
          const Graph together = with_residuals(narrow(b.graph, bf16));
          ASSERT_EQ(together.nodes.size() + 1, apart.nodes.size());
          expect_same_bits(apart, together, false);
        }
      }
    }
  }
}

Graph with_reductions(const Graph& graph) {
  return fuse_reductions(fuse_maps(graph, registry(), Phase::kForward).value()).value();
}

TEST(FuseReductions, AFunctionIsFusedWithTheReductionThatReadsIt) {
  GraphBuilder b;
  const ValueId x = b.input({96});
  b.output(b.call("mean", {b.call("mul", {b.call("sub", {x, b.input({96})}), x})}, axis(1)));
  EXPECT_EQ(print(with_reductions(b.graph)), R"(input %0 x0: f32[N, 96]
input %1 x1: f32[N, 96]
#0 %2: f32[N] = mean(%0, %1) {axis=1, keep=false, of="(x0 - x1) * x0"} @mean2
output y0 %2
)");
}

TEST(FuseReductions, OtherReductionsAreNotFused) {
  GraphBuilder across;  // the reduced dimension is not the innermost one in memory
  across.output(across.call("sum", {across.call("exp", {across.input({96, 96})})}, axis(1)));
  EXPECT_EQ(operators_of(with_reductions(across.graph)), "exp sum");
  GraphBuilder image;
  image.output(image.call("sum", {image.call("exp", {image.input({96, 80, 80})})}, axis(3)));
  image.output(image.call("sum", {image.call("exp", {image.input({96, 80, 80})})}, axis(1)));
  EXPECT_EQ(operators_of(with_reductions(image.graph)), "exp sum sum");
  GraphBuilder few;  // each result reduces only a few elements
  few.output(few.call("sum", {few.call("exp", {few.input({7})})}, axis(1)));
  EXPECT_EQ(operators_of(with_reductions(few.graph)), "exp sum");
  GraphBuilder largest;  // the gradient reads the reduced values
  largest.output(largest.call("max", {largest.call("exp", {largest.input({96})})}, axis(1)));
  EXPECT_EQ(operators_of(with_reductions(largest.graph)), "exp max");
  GraphBuilder twice;  // the function has a second reader
  const ValueId y = twice.call("exp", {twice.input({96})});
  twice.output(twice.call("sum", {y}, axis(1)));
  twice.output(y);
  EXPECT_EQ(operators_of(with_reductions(twice.graph)), "exp sum");
}

// Reduces a function of a tensor of the batch, a broadcast tensor and a parameter; results and gradients keep their
// bits.
TEST(FuseReductions, FusedReductionsHaveTheSameBits) {
  constexpr std::string_view kFunctions[] = {"x0 * x0",        "x0 - x1",          "x0 * x1",
                                             "(x0 - x1) * x2", "sigmoid(x0) * x2", "max(x0 * x1 + x2, 0)"};
  int at = 0;
  for (const bool bf16 : {false, true}) {
    for (const std::string_view reduction : {"sum", "mean"}) {
      for (const std::string_view function : kFunctions) {
        for (const int shape : {0, 1, 2, 3}) {  // rows, sequences, images, 5-D tensors
          for (const bool keep : {false, true}) {
            SCOPED_TRACE(std::string(reduction) + " of " + std::string(function) + ", shape " + std::to_string(shape) +
                         (keep ? ", kept" : "") + (bf16 ? ", bf16" : ""));
            GraphBuilder b;
            const int64_t width = shape == 2 ? 70 : 133;
            ValueId x = shape == 2 ? b.conv(b.input({3, 4, 5}), width)
                                   : b.call("linear", {shape == 0 ? b.input({9}) : b.input({7, 9})},
                                            {{"out", width}, {"bias", true}});
            x = shape == 3 ? b.call("reshape", {x}, {{"shape", std::vector<int64_t>{kBatch, 7, 1, 1, width}}}) : x;
            const int64_t along = shape == 0 || shape == 2 ? 1 : shape == 1 ? 2 : 4;
            // The second operand has one element for each reduced group; the parameter has the elements of one group.
            const ValueId other = b.call("mean", {x}, axis(along, true));
            const ValueId param = function.find("x2") == std::string_view::npos
                                      ? ValueId()
                                      : b.graph.add_param("p",
                                                          weight_type(shape == 2 ? std::vector<int64_t>{width, 1, 1}
                                                                                 : std::vector<int64_t>{width}),
                                                          Init{}, true, false, Span{});
            std::vector<ValueId> operands{x, other, param};
            if (function.find("x2") == std::string_view::npos) {
              operands.resize(function.find("x1") == std::string_view::npos ? 1 : 2);
            }
            ValueId y = b.call("map", operands, {{"y", std::string(function)}});
            y = b.call(reduction, {y}, axis(along, keep));
            // Reshapes the result to features of the batch.
            const int64_t left = shape == 0 ? 1 : shape == 2 ? 20 : 7;
            y = b.call("reshape", {y}, {{"shape", std::vector<int64_t>{kBatch, left}}});
            b.classify(b.call("linear", {y}, {{"out", int64_t{8}}, {"bias", true}}));
            const Graph apart = narrow(b.graph, bf16);
            const Graph together = fuse_reductions(apart).value();
            ASSERT_LT(together.nodes.size(), apart.nodes.size());
            expect_same_bits(apart, together, at++ % 2 == 0);
          }
        }
      }
    }
  }
}

// A parameter stays f32 even if the result is bf16.
TEST(FuseReductions, AReductionWithAParameterAsFirstOperandIsFused) {
  for (const bool bf16 : {false, true}) {
    GraphBuilder b;
    const ValueId x = b.call("linear", {b.input({7, 9})}, {{"out", int64_t{133}}, {"bias", true}});
    const ValueId param = b.graph.add_param("p", weight_type({133}), Init{}, true, false, Span{});
    const ValueId y = b.call("sum", {b.call("map", {param, x}, {{"y", std::string("x0 * x1")}})}, axis(2));
    b.classify(b.call("linear", {y}, {{"out", int64_t{8}}, {"bias", true}}));
    const Graph apart = narrow(b.graph, bf16);
    const Graph together = fuse_reductions(apart).value();
    ASSERT_LT(together.nodes.size(), apart.nodes.size());
    expect_same_bits(apart, together, false);
  }
}

}  // namespace
}  // namespace xrun::ops
